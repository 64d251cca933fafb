"""A signed statement of sizes: each check refuses a statement that all others let pass."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedvalue.crypto import keys
from fedvalue.errors import FedValueError
from fedvalue.protocol import messages as m
from fedvalue.protocol.readiness import check_roster, opened_ready, ranges_of, settings_of
from fedvalue.protocol.settings import Align, Gates, ProtocolName, RunTerms

NAMES = ("bank", "telco", "shop")
SIGNING = {name: bytes([k + 1]) * 32 for k, name in enumerate(NAMES)}
PINS = {name: keys.signing_public(key) for name, key in SIGNING.items()}
SIZES = {"bank": (3, 2), "telco": (4,), "shop": (5,)}


def terms(**changed: Any) -> RunTerms:
    agreed = {
        "run_id": bytes(32), "protocol": ProtocolName.MIRROR, "task": "bank", "parties": ("telco", "shop"),
        "max_samples": 200, "gates": Gates(min_samples=100, min_rows_per_code=5, min_cell=10),
    }  # fmt: skip
    return RunTerms(**(agreed | changed))


def statement(name: str, *, signer: str | None = None, **changed: Any) -> m.Ready:
    """An open Ready, signed after all changes but those of `ranges`."""
    shown = changed.pop("ranges", None)
    ranges = m.CodeRanges(changed.pop("sizes", SIZES[name]), changed.pop("features", ()), bytes(16))
    fields = {"party": name, "rows": 200, "brought": 200, "commitment": bytes(32)} | changed
    ready = m.Ready(ranges=ranges, ranges_digest=ranges.digest, signature=bytes(64), **fields)
    signature = keys.sign(SIGNING[signer or name], "ready", bytes(32), ready.signed())
    return msgspec.structs.replace(ready, signature=signature, ranges=shown or ranges)


def roster(telco: m.Ready) -> dict[str, m.Ready]:
    return {"bank": statement("bank"), "telco": telco, "shop": statement("shop")}


def test_a_roster_that_everybody_signed_gives_the_sizes_of_the_run() -> None:
    readies = roster(statement("telco"))
    check_roster(terms(), readies, PINS)
    settings = settings_of(terms(), readies)
    assert (settings.n_task_codes, settings.n_label_codes, settings.n_codes) == (3, 2, (4, 5))


@pytest.mark.parametrize(
    ("telco", "code", "words"),
    [
        (statement("telco", party="shop"), "E_SENDER", "'telco' sent the Ready of 'shop'"),
        (statement("telco", signer="shop"), "E_SIGNATURE", "pinned key"),
        (statement("telco", brought=201), "E_POPULATION", "has 201 rows, the agreement asks for 200"),
        (statement("telco", brought=199, rows=199), "E_POPULATION", "has 199 rows, the agreement asks for"),
        (statement("telco", rows=199), "E_POPULATION", "left out rows"),
        (statement("telco", ranges=bytes(1040)), "E_MALFORMED", "the sizes of 'telco' are sealed"),
        (
            statement("telco", ranges=m.CodeRanges((3,), (), bytes(16))),
            "E_SIGNATURE",
            "shows different sizes than it signed",
        ),
        (statement("telco", sizes=(4, 2)), "E_GATE", "the wrong number of sizes"),
        (statement("telco", sizes=()), "E_GATE", "the wrong number of sizes"),
        (statement("telco", features=(2, 2)), "E_GATE", "declares features, which were not agreed"),
        (
            statement("telco", sizes=(41,)),
            "E_GATE",
            "41 distinct codes; with 200 rows the agreed gate allows 40",
        ),
    ],
)
def test_a_statement_that_does_not_hold_is_refused(telco: m.Ready, code: str, words: str) -> None:
    with pytest.raises(FedValueError, match=words) as refused:
        check_roster(terms(), roster(telco), PINS)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("rows", "brought", "code", "words"),
    [
        (150, 200, "", ""),
        (150, 201, "E_POPULATION", "has 201 rows, the agreement allows 200"),
        (151, 150, "E_POPULATION", "left out rows"),
        (149, 200, "E_POPULATION", "'telco' has a different number of rows"),
        (99, 200, "E_GATE", "'telco' has 99 rows; the agreed gate requires 100"),
        (100, 200, "E_POPULATION", "'telco' has a different number of rows"),
    ],
)
def test_common_rows_are_as_many_for_everybody_and_no_more_than_were_brought(
    rows: int, brought: int, code: str, words: str
) -> None:
    readies = {name: statement(name, rows=150) for name in ("bank", "shop")}
    readies["telco"] = statement("telco", rows=rows, brought=brought)
    agreed = terms(align=Align.INTERSECT)
    if not code:
        check_roster(agreed, readies, PINS)
        return
    with pytest.raises(FedValueError, match=words) as refused:
        check_roster(agreed, readies, PINS)
    assert refused.value.code == code


def test_a_roster_without_a_party_is_refused() -> None:
    readies = roster(statement("telco"))
    del readies["shop"]
    with pytest.raises(FedValueError, match="every party exactly once") as refused:
        check_roster(terms(), readies, PINS)
    assert refused.value.code == "E_SENDER"


def test_open_sizes_are_refused_where_they_must_be_sealed() -> None:
    with pytest.raises(FedValueError, match="are not sealed") as refused:
        opened_ready(terms(), statement("telco"), bytes(32))
    assert refused.value.code == "E_MALFORMED"
    with pytest.raises(FedValueError, match="are sealed") as refused:
        ranges_of(statement("telco", ranges=bytes(1040)))
    assert refused.value.code == "E_MALFORMED"
