"""After E_MIRROR an auditor with the openings names whoever lied, and nobody else."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from fedvalue.crypto import keys
from fedvalue.errors import VerificationError
from fedvalue.federated.cast import Cast
from fedvalue.federated.valuers import make_valuer
from fedvalue.protocol import messages as m
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.mirror.blame import UploadOpening, liars
from fedvalue.protocol.party_roles import PartyRole
from fedvalue.protocol.settlement import committed
from fedvalue.protocol.validation_server import ValidationServer
from fedvalue.simulation.drill import party_cheats as parties
from fedvalue.simulation.drill.mirror_cheats import FiddlingCounting, swap
from fedvalue.simulation.drill.plot import Plot, cheating
from fedvalue.valuation.settings import ValuationSettings
from tests.simulation.world import Postman, World

ENGINE = ValuationSettings(method="exact", coalitions=False)


class Audit(Postman):
    """Keeps what an auditor gets: the servers' openings, and what every party would show."""

    def __init__(self, cast: Cast) -> None:
        self.answers: dict[str, m.ResultOpening] = {}
        self.openings: dict[str, UploadOpening] = {}
        super().__init__(cast.everyone(), meddler=self.watch)

    def watch(self, envelope: m.Envelope) -> list[m.Envelope]:
        if isinstance(envelope.message, m.ResultOpening):
            self.answers[envelope.sender] = envelope.message
        role = self._by_name[envelope.sender]
        if isinstance(role, PartyRole) and role._ring is not None:
            self.openings[role.name] = UploadOpening(role._samples, role._ring)
        return [envelope]


def audited(cast: Cast) -> tuple[Audit, Any]:
    audit = Audit(cast)
    audit.run()
    pins = cast.task._credentials.pins
    return audit, partial(liars, cast.task.settings, pins=pins, valuer=make_valuer(ENGINE))


def world() -> World:
    return World.drawn(4, n=80, sizes=(2, 3))


@pytest.mark.parametrize("columns", ["joint", "features"])
@pytest.mark.parametrize("grid", [None, "0.0001"])
def test_honest_participants_are_cleared(columns: str, grid: str | None) -> None:
    base = world().with_features() if columns == "features" else world()
    audit, named = audited(base.cast(engine=ENGINE, columns=columns, grid=grid))
    assert audit.errors == {}
    assert named(audit.openings, audit.answers) == ()


def test_a_party_that_sent_different_columns_is_named() -> None:
    plot = Plot(np.random.default_rng(1))
    cast = world().cast(engine=ENGINE, data_party=parties.cheating_party("p0", parties.SplitWork, plot))
    audit, named = audited(cast)
    assert {error.code for error in audit.errors.values()} == {"E_MIRROR"}
    assert named(audit.openings, audit.answers) == ("p0",)


def test_a_party_that_signed_two_roots_is_named() -> None:
    plot = Plot(np.random.default_rng(1))
    cast = world().cast(engine=ENGINE, data_party=parties.cheating_party("p0", parties.TwoRootsWork, plot))
    audit, named = audited(cast)
    assert "E_SPLIT" in {error.code for error in audit.errors.values()}
    assert named(audit.openings, audit.answers) == ("p0",)


@pytest.mark.parametrize(
    ("role", "kind"), [("computation", ComputationServer), ("validation", ValidationServer)]
)
def test_a_server_that_computed_wrongly_is_named(role: str, kind: Any) -> None:
    plot = Plot(np.random.default_rng(1))
    cheat = cheating(kind, FiddlingCounting, plot, fiddle=swap)
    cast = world().cast(engine=ENGINE, servers={role: cheat})
    audit, named = audited(cast)
    assert "E_MIRROR" in {error.code for error in audit.errors.values()}
    assert named(audit.openings, audit.answers) == ("compute" if role == "computation" else "validate",)


def test_a_party_cannot_clear_itself_with_other_rows() -> None:
    """The rows that it sent to one server do not give the other upload, and other rows give neither."""
    plot = Plot(np.random.default_rng(1))
    cast = world().cast(engine=ENGINE, data_party=parties.cheating_party("p0", parties.SplitWork, plot))
    audit, named = audited(cast)
    other = World.drawn(9, n=80, sizes=(2, 3)).cast(engine=ENGINE).parties[0]._samples
    lied = UploadOpening(other, audit.openings["p0"].ring)
    assert named({**audit.openings, "p0": lied}, audit.answers) == ("p0",)


def test_an_auditor_believes_no_unsigned_answer_and_no_key_that_others_do_not_have() -> None:
    audit, named = audited(world().cast(engine=ENGINE))
    answer = msgspec.structs.replace(audit.answers["compute"], answer=b"\x80")
    with pytest.raises(VerificationError) as caught:
        named(audit.openings, {**audit.answers, "compute": answer})
    assert caught.value.code == "E_SIGNATURE"
    stranger, _ = audited(world().cast(engine=ENGINE, secret=bytes(32)))
    mixed = {**audit.openings, "p0": stranger.openings["p0"]}
    with pytest.raises(VerificationError) as caught:
        named(mixed, audit.answers)
    assert caught.value.code == "E_OPENING"


def test_an_opening_that_was_spoilt_on_its_way_accuses_nobody() -> None:
    """The other server hands on what it got, with a party's signature damaged."""
    audit, named = audited(world().cast(engine=ENGINE))
    first, *rest = (honest := audit.answers["validate"]).roots
    spoilt = msgspec.structs.replace(first, signature=bytes(64))
    with pytest.raises(VerificationError) as caught:
        named(
            audit.openings,
            {**audit.answers, "validate": msgspec.structs.replace(honest, roots=(spoilt, *rest))},
        )
    assert caught.value.code == "E_SIGNATURE"


def test_a_server_that_shows_an_unsigned_root_frames_no_party() -> None:
    """Also where the other server's opening is not at hand."""
    cast = world().cast(engine=ENGINE)
    audit, named = audited(cast)
    first, *rest = (honest := audit.answers["validate"]).roots
    roots = (msgspec.structs.replace(first, signature=bytes(64)), *rest)
    run_id = cast.task.settings.run_id
    signed = committed(run_id, "validate", honest.salt, roots, honest.answer)
    key = next(one for one in cast.servers if one.name == "validate")._credentials.signing_key
    lie = msgspec.structs.replace(
        honest, roots=roots, signature=keys.sign(key, "settled", run_id, "validate", signed)
    )
    assert named(audit.openings, {"validate": lie}) == ("validate",)
