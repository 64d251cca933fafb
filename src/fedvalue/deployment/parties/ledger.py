"""A party's ledger: which runs, exact or with noise, it has made on which persons.

- What two runs reveal about a person adds up. Servers do not know who the samples are, so every party keeps
  count itself: the epsilon of runs with noise against a budget, exact runs against a number.
- An entry is charged to a population, the set of ids that the party brought. A run counts everything
  charged to any population that shares an id with its own: leaving out a row opens no new account.
- Each id is stored as 8 bytes of a keyed hash: enough to see whether two populations overlap, and still
  a list of persons to anybody who holds this folder.
"""

from __future__ import annotations

import datetime as dt
import secrets
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from fedvalue.crypto import keys
from fedvalue.errors import VerificationError
from fedvalue.protocol.privacy import parse_epsilon
from fedvalue.storage.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from fedvalue.agreement.manifest import Manifest
    from fedvalue.crypto.ids import PackedIds

_FORMAT = 1
"""Changes only with the schema below: a ledger must not be left behind because other files changed."""

_EXACT = "exact"
"""Stands in place of an epsilon in the entry of a run that releases exact values."""
_BATCH = 1 << 20
"""Ids that are compared at a time."""
_MOST_IDS = 100_000_000
"""Ids of a population that are kept, those with the smallest hashes: SQLite stores a value of up to 1 GB.
Of two larger populations with little in common the overlap may go unseen."""

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
    """A charged run. Entries with the same `population` have the same ids; an exact run has no epsilon."""

    run_id: bytes
    population: bytes
    epsilon: Fraction | None
    time: str


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a party lets runs on the same samples reveal: section [privacy] of its configuration.

    Args:
        epsilon: Of all runs with noise together.
        exact_runs: Number of runs that release exact values.
    """

    epsilon: Fraction
    exact_runs: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What earlier runs on samples like these were charged with."""

    epsilon: Fraction
    noisy_runs: int
    exact_runs: int


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
        hashes = np.concatenate([hash_ids(key, batch)[:, 0].copy() for batch in ids])
        hashes.sort()
        return Account(self._db, hashes[:_MOST_IDS])

    def entries(self) -> list[LedgerEntry]:
        """All entries, oldest first."""
        rows = self._db.rows("SELECT run_id, population, epsilon, time FROM entries ORDER BY time, run_id")
        return [LedgerEntry(bytes(run), bytes(who), _epsilon(eps), str(time)) for run, who, eps, time in rows]

    def close(self) -> None:
        """Close the database."""
        self._db.close()


class Account:
    """What was charged to one population and to all that share an id with it."""

    def __init__(self, db: Database, hashes: NDArray[np.uint64]) -> None:
        self._db = db
        self._hashes = hashes.astype("<u8", copy=False)
        self._digest = keys.digest(self._hashes.tobytes())
        self._remembered = False

    def check(self, run_id: bytes, epsilon: Fraction | None, allowed: Allowance) -> Spent:
        """Check that the run is charged already, or can be; what earlier runs were charged with.

        Args:
            run_id: The run.
            epsilon: Of its noise; None for a run that releases exact values.
            allowed: What the party lets all runs reveal.

        Raises:
            VerificationError: E_BUDGET, naming what was spent, what is requested and the limit.
        """
        spent = self.spent()
        if self._charged(run_id):
            return spent
        if epsilon is None and spent.exact_runs >= allowed.exact_runs:
            raise VerificationError(
                f"{spent.exact_runs} earlier runs released exact values of these samples, and the limit is "
                f"{allowed.exact_runs}: agree on an epsilon, or raise exact_runs in [privacy]",
                code="E_BUDGET",
            )
        if epsilon is not None and spent.epsilon + epsilon > allowed.epsilon:
            raise VerificationError(
                f"these samples have spent epsilon {float(spent.epsilon):g} in {spent.noisy_runs} earlier "
                f"runs, this run needs {float(epsilon):g} more, and the budget is {float(allowed.epsilon):g}",
                code="E_BUDGET",
            )
        return spent

    def remember(self) -> None:
        """Store the population, so that charging it writes a line and not all ids. Charges nothing."""
        if self._remembered:
            return  # SQLite reads all ids to find a population
        if self._db.one("SELECT 1 FROM populations WHERE digest = ?", self._digest) is None:
            with self._db.transaction() as db:
                ids = self._hashes.data.cast("B")
                db.execute("INSERT OR IGNORE INTO populations VALUES (?, ?)", (self._digest, ids))
        self._remembered = True

    def charge(self, run_id: bytes, epsilon: Fraction | None, allowed: Allowance) -> None:
        """Charge the run, once, however often it is started. Durable once this returns.

        Raises:
            VerificationError: E_BUDGET; nothing was charged.
            EngineError: E_STORAGE; nothing was charged.
        """
        self.remember()
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # One transaction: of two runs that start at the same time, the second sees the first.
        with self._db.transaction() as db:
            self.check(run_id, epsilon, allowed)
            db.execute(
                "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)",
                (run_id, self._digest, _EXACT if epsilon is None else str(epsilon), now),
            )

    def spent(self) -> Spent:
        """What all runs on populations that share an id with this one were charged with."""
        meeting = [digest for digest in self._populations() if self._meets(digest)]
        rows = self._db.rows("SELECT population, epsilon FROM entries")
        charged = [_epsilon(epsilon) for population, epsilon in rows if bytes(population) in meeting]
        noisy = [epsilon for epsilon in charged if epsilon is not None]
        return Spent(sum(noisy, Fraction(0)), len(noisy), len(charged) - len(noisy))

    def _populations(self) -> list[bytes]:
        """Those that something was charged to."""
        return [bytes(digest) for (digest,) in self._db.rows("SELECT DISTINCT population FROM entries")]

    def _meets(self, digest: bytes) -> bool:
        """Whether a stored population shares an id with this one. Both are sorted."""
        import numpy as np

        if digest == self._digest:
            return True
        row = self._db.one("SELECT ids FROM populations WHERE digest = ?", digest)
        known = np.frombuffer(row[0], dtype="<u8") if row is not None else self._hashes[:0]
        for start in range(0, len(self._hashes) if len(known) else 0, _BATCH):
            batch = self._hashes[start : start + _BATCH]
            places = np.minimum(np.searchsorted(known, batch), len(known) - 1)
            if (known[places] == batch).any():
                return True
        return False

    def _charged(self, run_id: bytes) -> bool:
        """Whether the run was charged to exactly these samples."""
        found = self._db.one(
            "SELECT 1 FROM entries WHERE run_id = ? AND population = ?", run_id, self._digest
        )
        return found is not None


class Charging:
    """Charges the runs of one party's samples, as far as the party allows."""

    def __init__(self, account: Account, allowed: Allowance) -> None:
        self._account = account
        self._allowed = allowed

    def check(self, manifest: Manifest, report: Callable[[str, str], None]) -> None:
        """Check that the manifest's run is charged already or can be, and report earlier exact runs.

        Raises:
            VerificationError: E_BUDGET.
            EngineError: E_STORAGE.
        """
        spent = self._account.check(manifest.run_id, agreed_epsilon(manifest), self._allowed)
        if spent.exact_runs:
            report("note", f"earlier runs with exact values of these samples: {spent.exact_runs}")
        self._account.remember()

    def charge(self, manifest: Manifest) -> None:
        """Charge the manifest's run; raises as `Account.charge` does."""
        self._account.charge(manifest.run_id, agreed_epsilon(manifest), self._allowed)


def agreed_epsilon(manifest: Manifest) -> Fraction | None:
    """The epsilon of a run; None if it releases exact values."""
    return None if manifest.epsilon is None else parse_epsilon(manifest.epsilon)


def _epsilon(stored: str) -> Fraction | None:
    return None if stored == _EXACT else Fraction(stored)
