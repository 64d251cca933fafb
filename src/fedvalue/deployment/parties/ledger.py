"""A party's ledger of epsilon: how much its runs with noise have spent, by population.

What two runs reveal about a person adds up. Servers do not know who the samples are, so every party keeps
count itself. An entry is charged to a population, the set of ids that the party brought; a run counts
everything spent on any population that shares an id with its own, so leaving out a row does not open a
new account. Each id is stored as 8 bytes of a keyed hash: enough to see whether two populations overlap,
and still a list of persons to anybody who holds this folder.
"""

from __future__ import annotations

import datetime as dt
import secrets
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from fedvalue.crypto import keys
from fedvalue.errors import VerificationError
from fedvalue.storage.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from fedvalue.crypto.ids import PackedIds

_FORMAT = 1
"""Changes only with the schema below: a ledger must not be left behind because other files changed."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS secret (id INTEGER PRIMARY KEY CHECK (id = 0), key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS populations (digest BLOB PRIMARY KEY, ids BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    run_id BLOB NOT NULL, population BLOB NOT NULL REFERENCES populations, epsilon TEXT NOT NULL,
    time TEXT NOT NULL, PRIMARY KEY (run_id, population)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A charged run. Entries with the same `population` have the same ids."""

    run_id: bytes
    population: bytes
    epsilon: Fraction
    time: str


class Ledger:
    """The ledger in a party's state folder."""

    def __init__(self, folder: Path) -> None:
        self._db = Database(folder / "ledger.sqlite", _SCHEMA, _FORMAT)
        with self._db.transaction() as db:
            db.execute("INSERT OR IGNORE INTO secret VALUES (0, ?)", (secrets.token_bytes(16),))

    def account(self, ids: Iterable[PackedIds]) -> Account:
        """The account of a population, from its ids in batches. Needs some tens of bytes per id."""
        import numpy as np

        from fedvalue.crypto.hashing import hash_ids

        row = self._db.one("SELECT key FROM secret")
        assert row is not None
        key = bytes(row[0])
        # Half of a hash: among 10^7 persons two collide once in 300,000 ledgers, and then count as one.
        hashes = np.concatenate([hash_ids(key, batch)[:, 0] for batch in ids])
        hashes.sort()
        return Account(self._db, hashes)

    def entries(self) -> list[LedgerEntry]:
        """All entries, oldest first."""
        rows = self._db.rows("SELECT run_id, population, epsilon, time FROM entries ORDER BY time, run_id")
        return [LedgerEntry(bytes(run), bytes(who), Fraction(eps), str(time)) for run, who, eps, time in rows]

    def close(self) -> None:
        """Close the database."""
        self._db.close()


class Account:
    """The epsilon spent on one population and on all that share an id with it."""

    def __init__(self, db: Database, hashes: NDArray[np.uint64]) -> None:
        self._db = db
        self._ids = hashes.astype("<u8").tobytes()
        self._hashes = hashes
        self._digest = keys.digest(self._ids)

    def check(self, run_id: bytes, epsilon: Fraction, budget: Fraction) -> None:
        """Check that the run is charged already, or can be.

        Raises:
            VerificationError: E_BUDGET, naming the epsilon spent, the epsilon requested and the budget.
        """
        if self._charged(run_id):
            return
        spent, runs = self.spent()
        if spent + epsilon > budget:
            raise VerificationError(
                f"these samples have spent epsilon {float(spent):g} in {runs} earlier runs, this run needs "
                f"{float(epsilon):g} more, and the budget is {float(budget):g}",
                code="E_BUDGET",
            )

    def spend(self, run_id: bytes, epsilon: Fraction, budget: Fraction) -> None:
        """Charge the run, once, however often it is started. Durable once this returns.

        Raises:
            VerificationError: E_BUDGET; nothing was charged.
            EngineError: E_STORAGE; nothing was charged.
        """
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # One transaction: of two runs that start at the same time, the second sees the first.
        with self._db.transaction() as db:
            self.check(run_id, epsilon, budget)
            db.execute("INSERT OR IGNORE INTO populations VALUES (?, ?)", (self._digest, self._ids))
            db.execute(
                "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)",
                (run_id, self._digest, str(epsilon), now),
            )

    def spent(self) -> tuple[Fraction, int]:
        """Epsilon of all runs on populations that share an id with this one, and their number."""
        import numpy as np

        meeting = []
        for digest, ids in self._db.rows("SELECT digest, ids FROM populations"):
            known = np.frombuffer(ids, dtype="<u8")
            if bytes(digest) == self._digest or np.isin(self._hashes, known).any():
                meeting.append(bytes(digest))
        rows = self._db.rows("SELECT population, epsilon FROM entries")
        charged = [Fraction(epsilon) for population, epsilon in rows if bytes(population) in meeting]
        return sum(charged, Fraction(0)), len(charged)

    def _charged(self, run_id: bytes) -> bool:
        """Whether the run was charged to exactly these samples."""
        found = self._db.one(
            "SELECT 1 FROM entries WHERE run_id = ? AND population = ?", run_id, self._digest
        )
        return found is not None
