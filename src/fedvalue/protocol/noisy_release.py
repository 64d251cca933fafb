"""How two servers add the same noise to the same tables, which neither has chosen and no party knows.

1. `NoiseCommit`, C to V: a hash of C's contribution to the noise's key.
2. `NoiseSeed`, V to C: V's contribution. It cannot depend on C's, which V has not seen. V keeps it back
   until it has counted all uploads: a server that knows the noise and does not like it can stop the run,
   but not before every party has paid for it.
3. `NoiseOpening`, C to V: C's contribution, which must fit the hash, and a digest of C's exact tables, which
   V compares with its own before anything leaves.

Codes have the same secret names at both servers, so both add the same number to the same cell: tables are
whole numbers, and nothing has to be rounded. C knows the noise one message before V, V before its results
leave, and either can then stop the run; neither can choose it. Contributions derive from a server's seed: a
server that is restarted adds the same noise.
"""

from __future__ import annotations

import hmac

import numpy as np

from fedvalue.crypto import keys
from fedvalue.crypto.discrete_gaussian import discrete_gaussian
from fedvalue.errors import VerificationError
from fedvalue.information.pair_tables import PairLayout, PairTables
from fedvalue.protocol import messages as m
from fedvalue.protocol.privacy import Privacy
from fedvalue.protocol.settings import RunTerms


def drawn(privacy: Privacy, layout: PairLayout, key: bytes) -> tuple[int, ...]:
    """The noise on every cell; the same for the same key."""
    label = discrete_gaussian(
        keys.subkey(key, b"", "noise-label"), layout.n_label_cells, privacy.label_variance
    )
    rest = layout.n_cells - layout.n_label_cells
    if not rest:
        return label
    return label + discrete_gaussian(keys.subkey(key, b"", "noise-pairs"), rest, privacy.pair_variance)


def noisy_tables(tables: PairTables, privacy: Privacy, key: bytes) -> PairTables:
    """The tables that may leave."""
    return tables.with_noise(
        drawn(privacy, tables.layout, key), float(privacy.label_variance), float(privacy.pair_variance)
    )


class NoisyRelease:
    """One server's state: its exact tables, and both contributions to the key."""

    def __init__(self, terms: RunTerms, server: str, seed: bytes) -> None:
        self._run_id = terms.run_id
        self._own = keys.subkey(seed, terms.run_id, "noise-seed", terms.digest(), server)
        self._other: bytes | None = None
        self._exact: PairTables | None = None
        self._privacy: Privacy | None = None

    def counted(self, exact: PairTables, privacy: Privacy) -> None:
        """Keep the exact tables until the noise is known. They never leave."""
        self._exact, self._privacy = exact, privacy

    @property
    def ready(self) -> bool:
        """Whether the tables and both contributions are here."""
        return self._exact is not None and self._other is not None

    def _noisy(self, *contributions: bytes) -> PairTables:
        assert self._exact is not None
        assert self._privacy is not None
        key = keys.subkey(b"".join(contributions), self._run_id, "noise")
        return noisy_tables(self._exact, self._privacy, key)

    def _hash(self, contribution: bytes) -> bytes:
        return keys.digest(b"noise-commit", self._run_id, contribution)

    def _digest(self, contribution: bytes) -> bytes:
        """Digest of the exact tables under C's contribution, for V, which has the same tables."""
        assert self._exact is not None
        cells = np.ascontiguousarray(self._exact.cells, dtype="<i8").tobytes()
        return keys.mac(contribution, "noise-tables", self._run_id, cells)


class CommittingRelease(NoisyRelease):
    """The computation server's side."""

    def commit(self) -> m.NoiseCommit:
        """Step 1."""
        return m.NoiseCommit(self._hash(self._own))

    def take(self, message: m.NoiseSeed) -> None:
        """Step 2: the validation server's contribution."""
        self._other = message.seed

    def open(self) -> tuple[m.NoiseOpening, PairTables]:
        """Step 3, and the noisy tables."""
        assert self._other is not None
        return m.NoiseOpening(self._own, self._digest(self._own)), self._noisy(self._own, self._other)


class AnsweringRelease(NoisyRelease):
    """The validation server's side."""

    _commitment = b""
    _tables = b""

    def committed(self, message: m.NoiseCommit) -> None:
        """Step 1: from here on the other server can no longer change its contribution."""
        self._commitment = message.commitment

    def answer(self) -> list[m.NoiseSeed]:
        """Step 2: our contribution, when the other's is fixed and all is counted. Ask after either."""
        due = self._commitment and self._exact is not None
        return [m.NoiseSeed(self._own)] if due else []

    def take(self, message: m.NoiseOpening) -> None:
        """Step 3.

        Raises:
            VerificationError: The computation server has committed to something else, or not at all
                (E_NOISE).
        """
        if not hmac.compare_digest(self._hash(message.seed), self._commitment):
            raise VerificationError(
                "the computation server opened another noise seed than it had committed to", code="E_NOISE"
            )
        self._other, self._tables = message.seed, message.tables

    def noisy(self) -> PairTables:
        """The noisy tables.

        Raises:
            VerificationError: The other server's tables are not ours (E_MIRROR).
        """
        assert self._other is not None
        if not hmac.compare_digest(self._digest(self._other), self._tables):
            raise VerificationError("the two servers counted different tables", code="E_MIRROR")
        return self._noisy(self._other, self._own)
