"""`vpsic` under the drill: servers that move rows between cells, with and without knowing q.

Its checks rely on a q that the server does not know. But the server sees counts: real rows come in multiples
of q, artificial ones singly. `read_q` finds q from the counts of one round if the table is sparse; the sum of
the counts gives it for any table if the server knows the number of samples. A server that moves q units per
row passes every check of the published protocol.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.federated.cast import CodedTables
from fedvalue.federated.vpsic_run import vpsic_counts
from fedvalue.protocol.samples import CodedColumn
from fedvalue.protocol.vpsic import CellCounts, Upload, VpsicServer, VpsicSettings
from fedvalue.simulation.drill.plot import Plot
from fedvalue.simulation.drill.runner import DrillRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.contingency import JointCounts

Cell: TypeAlias = tuple[int, ...]
Table: TypeAlias = dict[Cell, int]
Move: TypeAlias = Callable[[Table, int, np.random.Generator], dict[Cell, int]]
"""Counts, q, random numbers -> rows to add to cells, negative to remove; empty if no move is possible."""

Reader: TypeAlias = Callable[["NDArray[np.int64]"], int]
"""Counts of one round -> q."""

_RATES = np.geomspace(0.001, 60.0, 24)
_FALLING = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_LARGEST = 2500
_LARGEST_Q = 8


def read_q(counts: NDArray[np.int64]) -> int:
    """The most likely number of copies per id, from the counts of all non-empty cells of one round.

    A count is q k + a, with k real rows, roughly geometric or uniform, and a artificial ids, roughly Poisson.
    The likelihoods of all q up to 8 are compared, each with its best rates.
    """
    kinds, times = np.unique(np.minimum(counts, _LARGEST), return_counts=True)
    top = int(kinds.max())
    a = np.arange(top + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, top + 1)))])
    poisson = np.exp(a[None] * np.log(_RATES)[:, None] - _RATES[:, None] - log_factorial[None])
    best, likeliest = -np.inf, 1
    for q in range(2, min(_LARGEST_Q, top) + 1):
        k = np.arange(top // q + 1)
        for falling in _FALLING:
            weights = falling**k
            chance = np.zeros_like(poisson)
            for rows, weight in zip(k, weights / weights.sum(), strict=True):
                chance[:, q * rows :] += weight * poisson[:, : top + 1 - q * rows]
            score = float((np.log(chance[:, kinds] / (1 - chance[:, :1]) + 1e-12) @ times).max())
            if score > best:
                best, likeliest = score, q
    return likeliest


def between_two_cells(table: Table, q: int, rng: np.random.Generator) -> dict[Cell, int]:
    """One row from the fullest cell to another."""
    source = max(table, key=lambda cell: (table[cell], cell))
    others = [cell for cell in sorted(table) if cell != source]
    del q
    return {source: -1, others[rng.integers(len(others))]: 1}


def round_a_rectangle(table: Table, q: int, rng: np.random.Generator) -> dict[Cell, int]:
    """Two rows swap one party's category, so that every party's marginal stays the same.

    The fullest pair of cells that differ in at least two parties gives one row each to the two cells that
    swap the categories of the last of these parties.
    """
    full = sorted((cell for cell in table if table[cell] >= q), key=lambda cell: (-table[cell], cell))[:60]
    for a, b in combinations(full, 2):
        differing = [k for k in range(len(a)) if a[k] != b[k]]
        if len(differing) >= 2:
            k = differing[-1]
            return {a: -1, b: -1, (*a[:k], b[k], *a[k + 1 :]): 1, (*b[:k], a[k], *b[k + 1 :]): 1}
    return {}


class MovingServer(VpsicServer):
    """Counts truly, decides on a move in the first round, and makes the same one in every round.

    Args:
        plot: Its random numbers; records that it has cheated.
        move: Chooses the rows to move.
        read: Finds q in every round; None guesses it once, from 2 to 8.
    """

    def __init__(self, plot: Plot, move: Move, read: Reader | None = read_q) -> None:
        self._plot = plot
        self._move = move
        self._read = read
        self._guess = int(plot.rng.integers(2, 9))
        self._rows: dict[Cell, int] = {}

    def count(self, index: int, uploads: Sequence[Upload]) -> CellCounts:
        """The true counts with the same rows moved in every round."""
        truth = super().count(index, uploads)
        table = {tuple(c): int(n) for c, n in zip(truth.cells.tolist(), truth.counts.tolist(), strict=True)}
        q = self._guess if self._read is None else self._read(truth.counts)
        if index == 0:
            self._rows = self._move(table, q, self._plot.rng)
        for cell, rows in self._rows.items():
            table[cell] = max(0, table.get(cell, 0) + q * rows)
        self._plot.fired = self._plot.fired or bool(self._rows)
        cells = sorted(cell for cell, count in table.items() if count > 0)
        return CellCounts(
            np.array(cells, dtype=np.int64), np.array([table[cell] for cell in cells], dtype=np.int64)
        )


@dataclass(frozen=True, slots=True)
class VpsicScenario:
    """One way to cheat.

    Args:
        behaviour: Its name in the output.
        move: Chooses the rows to move.
        read: Finds q from counts; None guesses it.
        published: Probability that the published checks detect it.
        hardened: Probability that the checks with marginals detect it.
    """

    behaviour: str
    move: Move
    read: Reader | None
    published: float
    hardened: float


def blind_detection(settings: VpsicSettings) -> float:
    """Probability that a guessed q, drawn once from 2 to 8, is detected.

    It passes if in every round q divides it with the same quotient, that is, if all q are equal.
    """
    drawn = range(settings.least_q, settings.most_q + 1)
    dividing = sum(guess % q == 0 for guess in range(2, 9) for q in drawn)
    return float(1.0 - dividing / 7 / len(drawn) ** settings.rounds)


def scenarios(settings: VpsicSettings, n_samples: int) -> tuple[VpsicScenario, ...]:
    """Every way to cheat, with its prediction if q is read correctly."""
    two, rectangle = between_two_cells, round_a_rectangle

    def of_total(counts: NDArray[np.int64]) -> int:
        """Q from the sum of all counts: q n and the artificial ids, of which there are fewer than n."""
        return int(counts.sum()) // n_samples

    return (
        VpsicScenario("move rows between two cells, guessing q", two, None, blind_detection(settings), 1.0),
        VpsicScenario("move a row between two cells, reading q", two, read_q, 0.0, 1.0),
        VpsicScenario("move rows round a rectangle, reading q", rectangle, read_q, 0.0, 0.0),
        VpsicScenario("move a row between two cells, knowing n", two, of_total, 0.0, 1.0),
        VpsicScenario("move rows round a rectangle, knowing n", rectangle, of_total, 0.0, 0.0),
    )


def uniform_tables(n_samples: int, n_parties: int, n_codes: int, rng: np.random.Generator) -> CodedTables:
    """Independent uniform codes and a binary label."""
    columns = [
        CodedColumn(f"party-{k + 1}", rng.integers(0, n_codes, n_samples), n_codes) for k in range(n_parties)
    ]
    return CodedTables(CodedColumn("label", rng.integers(0, 2, n_samples), 2), columns)


def vpsic_rows(
    *,
    trials: int,
    seed: int = 0,
    settings: VpsicSettings | None = None,
    n_samples: int = 400,
    n_parties: int = 3,
    n_codes: int = 8,
) -> Iterator[DrillRow]:
    """Each way to cheat against the published and the hardened checks.

    Every trial has its own table and secrets; `settings.harden` is varied.
    """
    settings = settings or VpsicSettings()
    for scenario in scenarios(settings, n_samples):
        for hardened in (False, True):
            rng = np.random.default_rng([seed, trials])
            codes: Counter[str] = Counter()
            for _ in range(trials):
                tables = uniform_tables(n_samples, n_parties, n_codes, rng)
                codes[_trial(scenario, tables, replace(settings, harden=hardened), rng)] += 1
            predicted = scenario.hardened if hardened else scenario.published
            yield DrillRow.of("vpsic", scenario.behaviour, codes, hardened=hardened, predicted=predicted)


def _trial(
    scenario: VpsicScenario, tables: CodedTables, settings: VpsicSettings, rng: np.random.Generator
) -> str:
    """The code of the error that the run ends with, or "" where a false table was accepted."""
    plot = Plot(rng)
    server = MovingServer(plot, scenario.move, scenario.read)
    ids = PackedIds.of_rows(len(tables.label.codes))
    secret = secrets.token_bytes(32)
    try:
        accepted = vpsic_counts(tables, settings, ids=ids, server=server, secret=secret)
    except (VerificationError, RemoteProtocolError) as error:
        assert plot.fired, "the run failed before the server cheated"
        return error.code
    assert plot.fired, "the server had no opportunity to cheat"
    truth = vpsic_counts(tables, settings, ids=ids, secret=secret)
    assert _rows(accepted) != _rows(truth), "the lie made no difference"
    return ""


def _rows(counts: JointCounts) -> list[tuple[int, ...]]:
    columns = np.column_stack([counts.label, counts.task, counts.parties, counts.count])
    return sorted(map(tuple, columns.tolist()))
