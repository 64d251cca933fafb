"""The gate on what the task party asks: no label and no X_t may single out a few samples."""

from __future__ import annotations

import numpy as np
import pytest

from fedvalue.deployment.servers.server_role import valuer_of
from fedvalue.errors import VerificationError
from fedvalue.protocol import party_roles
from fedvalue.protocol.transitions import State
from tests.support.consortium import manifest, signed
from tests.support.roles import party_input, run_roles
from tests.support.town import columns

N = 200


def run(label: np.ndarray, task: np.ndarray, **terms):
    codes = columns(N)
    inputs = {"bank": party_input(task, label), **{p: party_input(codes[p]) for p in ("telco", "shop")}}
    return run_roles(signed(n_samples=N, **terms), inputs)


def singled_out(size: int) -> np.ndarray:
    column = np.zeros(N, dtype=np.int64)
    column[:size] = 1
    return column


@pytest.mark.parametrize("size", [1, 9])
@pytest.mark.parametrize("where", ["label", "task"])
def test_servers_refuse_a_column_that_singles_out_a_few_samples(where, size):
    """The task party's own software would refuse as well; here it does not ask it."""
    honest = columns(N)
    given = {"label": honest["label"], "task": honest["task"], where: singled_out(size)}
    with pytest.raises(VerificationError, match="fewer than 10 samples") as caught:
        run(given["label"], given["task"])
    assert caught.value.code == "E_GATE"


def test_ten_samples_pass_and_research_lifts_the_gate():
    honest = columns(N)
    assert run(singled_out(10), honest["task"])["bank"].state is State.DONE
    assert run(singled_out(1), honest["task"], research=True)["bank"].state is State.DONE


def test_the_gate_counts_samples_not_cells():
    """Ten samples of a label in ten different cells are ten samples."""
    from fedvalue.information.contingency import JointCounts
    from fedvalue.protocol.settings import ProtocolName, Settings

    label = np.r_[np.zeros(10, dtype=np.int64), np.ones(10, dtype=np.int64)]
    counts = JointCounts(
        task=np.zeros(20, dtype=np.int64),
        label=label,
        parties=np.tile(np.arange(10), 2)[:, None],
        count=np.r_[np.full(10, 50), np.ones(10, dtype=np.int64)],
        names=("column 0",),
        n_codes=(10,),
    )
    settings = Settings(
        run_id=bytes(32), protocol=ProtocolName.MIRROR, task="bank", parties=("telco",),
        max_samples=510, n_samples=510, n_task_codes=1, n_label_codes=2, n_codes=(10,),
    )  # fmt: skip
    assert valuer_of(manifest())(counts, settings).public["n_samples"] == 510


def inflated() -> dict[str, np.ndarray]:
    """A data party with 50 codes in 200 rows; the gate is 20."""
    return {**columns(N), "telco": np.arange(N) % 50}


def run_inflated():
    codes = inflated()
    inputs = {"bank": party_input(codes["task"], codes["label"])}
    return run_roles(signed(n_samples=N), inputs | {p: party_input(codes[p]) for p in ("telco", "shop")})


def test_parties_refuse_a_column_with_too_many_codes_that_its_owner_let_pass(monkeypatch):
    monkeypatch.setattr(party_roles, "check_own_gates", lambda *_: None)
    with pytest.raises(VerificationError, match="party 'telco' has 50 distinct codes") as caught:
        run_inflated()
    assert caught.value.code == "E_GATE"


def test_servers_refuse_a_column_with_too_many_codes_that_all_parties_let_pass(monkeypatch):
    """They see the sizes of unnamed columns, and name nobody."""
    monkeypatch.setattr(party_roles, "check_own_gates", lambda *_: None)
    monkeypatch.setattr(party_roles, "check_roster", lambda *_: None)
    with pytest.raises(VerificationError, match="a column has 50 distinct codes") as caught:
        run_inflated()
    assert caught.value.code == "E_GATE"
    assert "telco" not in str(caught.value)
