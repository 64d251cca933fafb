"""The result object: JSON there and back, absent rather than zero, clear errors for damaged files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from fedvalue import Valuation
from fedvalue.errors import InputError
from fedvalue.valuation.result import PartyValue, UpliftRow, interval_of


def party(**changes: object) -> PartyValue:
    plain = {"name": "telco", "value": 0.25, "share": 1.0, "alone": 0.25, "last": 0.25, "n_codes": 3}
    return PartyValue(**{**plain, **changes})  # type: ignore[arg-type]


def valuation(**changes: object) -> Valuation:
    plain = {"parties": (party(),), "total": 0.25, "label_entropy": 0.5, "n_samples": 10, "method": "exact"}
    return Valuation(**{**plain, **changes})  # type: ignore[arg-type]


def test_what_was_not_computed_has_no_key() -> None:
    data = valuation().to_dict()
    assert "learnable" not in data["parties"][0]
    assert "se_data" not in data["parties"][0]
    assert "learnable_total" not in data
    assert "interactions" not in data


def test_json_round_trip_keeps_everything(tmp_path: Path) -> None:
    full = valuation(
        parties=(party(se_data=0.01, learnable=0.2, se_learnable=0.0, flags=("memorised",)),),
        learnable_total=0.2, interactions=((0.0,),), coalitions={"value": (0.0, 0.25)},
        protocol="mirror", run_id="ab12", bins=5, seed=3, n_permutations=100, details={"notes": ["x"]},
    )  # fmt: skip
    full.to_json(tmp_path / "r.json")
    assert Valuation.from_json(tmp_path / "r.json") == full


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*: No such file or directory"):
        valuation().to_json(tmp_path / "nowhere" / "r.json")


def test_interval_is_1_96_standard_errors_to_each_side() -> None:
    assert interval_of(0.25, 0.05) == pytest.approx((0.25 - 1.96 * 0.05, 0.25 + 1.96 * 0.05), abs=1e-5)


def test_party_by_name() -> None:
    assert valuation()["telco"].value == 0.25
    with pytest.raises(KeyError):
        valuation()["nobody"]


def test_coalitions_by_name() -> None:
    """Party k is bit k of the mask."""
    both = valuation(
        parties=(party(), party(name="shop")),
        coalitions={"learnable": (0.0, 0.1, 0.2, 0.25), "value": (0.0, 0.3, 0.4, 0.5)},
    )
    assert both.coalition() == 0.0
    assert both.coalition("shop") == 0.2
    assert both.coalition("shop", "telco") == 0.25
    assert both.coalition("telco", by="value") == 0.3
    with pytest.raises(InputError, match="no party 'bank' in this result; its parties are telco, shop"):
        both.coalition("bank")
    with pytest.raises(InputError, match="one by one"):
        both.coalition(["shop", "telco"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no coalition values"):
        valuation().coalition("telco")


def test_uplift_by_set_of_parties() -> None:
    """The order of the names does not matter; a set that was not scored has no uplift."""
    rows = tuple(
        UpliftRow(parties=parties, role="set", log_loss=loss, accuracy=0.5)
        for parties, loss in (((), 0.7), (("telco", "shop"), 0.6))
    )
    both = valuation(parties=(party(), party(name="shop")), uplift=rows)
    assert both.uplift_of(()) is rows[0]
    assert both.uplift_of(["shop", "telco"]) is rows[1]
    assert both.uplift_of(["shop"]) is None
    assert valuation().uplift_of(()) is None


def test_repr_is_one_line_and_str_a_table() -> None:
    full = valuation(parties=(party(learnable=0.2, learnable_share=1.0),), learnable_total=0.2)
    assert repr(full) == "Valuation(1 parties, 10 samples, learnable_total=0.2, total=0.25 nats, exact)"
    assert str(full).splitlines() == [
        "party  learnable   share  Shapley-CMI",
        "telco     0.2000  100.0%       0.2500",
        "total     0.2000               0.2500  nats, 10 samples",
    ]


def test_a_party_cannot_send_commands_to_the_terminal() -> None:
    """A name with an escape sequence is printed as text."""
    printed = str(valuation(parties=(party(name="\x1b[2Jtelco"),)))
    assert "\x1b" not in printed
    assert r"\x1b[2Jtelco" in printed


def test_frame_has_a_row_per_party() -> None:
    assert valuation().to_frame().loc["telco", "value"] == 0.25


def test_frame_has_both_ends_of_every_interval_whichever_library_is_there(monkeypatch):
    """pandas first, then Polars, then Arrow, which is always there: the same columns and numbers."""
    result = valuation()
    party = replace(result.parties[0], learnable=0.2, learnable_interval=(0.1, 0.3), flags=("a", "b"))
    result = replace(result, parties=(party, *result.parties[1:]))
    frame = result.to_frame()
    assert frame.loc[party.name, ["learnable_low", "learnable", "learnable_high"]].tolist() == [0.1, 0.2, 0.3]
    assert frame.loc[party.name, "flags"] == "a, b"
    assert "interval_low" not in " ".join(frame.columns)
    monkeypatch.setitem(sys.modules, "pandas", None)
    polars = result.to_frame()
    assert type(polars).__module__.startswith("polars")
    monkeypatch.setitem(sys.modules, "polars", None)
    arrow = result.to_frame()
    assert arrow.column_names == polars.columns == ["name", *frame.columns]
    assert arrow["learnable_high"][0].as_py() == polars["learnable_high"][0] == 0.3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "expected a document of schema"),
        ('{"schema": "other/9"}', "other/9"),
        ('{"schema": "fedvalue.result/2"}', "missing required field `n_samples`"),
        (
            '{"schema": "fedvalue.result/2", "n_samples": 3, "method": "exact", "total": 1, "parties": 5}',
            r"Expected `array`, got `int` - at `\$.parties`",
        ),
        (
            json.dumps({**valuation().to_dict(), "total": "much"}),
            r"`float \| null`, got `str` - at `\$.total`",
        ),
        (
            json.dumps({**valuation().to_dict(), "parties": [{"name": 3}]}),
            r"Expected `str`, got `int` - at `\$.parties\[0\].name`",
        ),
        (json.dumps({**valuation().to_dict(), "worth": 1}), "unknown field `worth`"),
        ('{"schema": "fedvalue.result/2", "total": 1, "total": 2}', "the key 'total' occurs twice"),
        ('{"schema": "fedvalue.result/2", "total": NaN}', "NaN"),
        (json.dumps({**valuation().to_dict(), "interactions": [[0.0, 1.0]]}), "matrix of 1 rows"),
    ],
)
def test_damaged_files_are_refused_with_a_reason(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        Valuation.from_json(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.json"):
        Valuation.from_json(tmp_path / "gone.json")


def test_a_result_may_lack_shapley_cmi_but_not_every_number() -> None:
    """A data party of a federated run may get its learnable value alone."""
    result = Valuation(
        parties=(PartyValue(name="a", learnable=0.25),), n_samples=10, method="exact", learnable_total=0.25
    )
    assert result["a"].leading == 0.25
    assert result.values == {}
    assert "value" not in result.to_dict()["parties"][0]
    assert "unknown" in str(result)
    assert Valuation.from_dict(result.to_dict()) == result
    with pytest.raises(InputError, match="neither"):
        PartyValue(name="a")
