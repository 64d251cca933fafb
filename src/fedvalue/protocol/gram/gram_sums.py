"""A server's side of `gram`: sums of products of the two components that it holds of every party.

1. Every party has declared: exchange what it signed (`GramPledge`), with commitments to a coin and to a seed
   shared with each other server. Different signatures of one party prove that it lied (E_SPLIT).
2. Open coin and seeds (`GramCoin`). The coin decides how rows are checked; no party knew it when it signed.
   Each server also says what the third one had committed to: all three use one coin (E_EQUIVOCATION).
   The seed that two servers share gives the noise of the component that both hold, and masks.
3. Add up chunk by chunk, in one pass; a chunk is discarded when it is counted.
4. Exchange checks (`GramCheck`): every entry is 0 or 1, and every feature has one 1 per row. A value that two
   servers hold must be the same from both.
5. Commit to the sums (`GramCommitment` to the parties), which then reveal their check weights.
6. Check that the check columns are what the weights say (`GramTest`): otherwise a party could read a row from
   the difference. Only then open the sums, to the parties alone.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.gram.components import (
    N_COMPONENTS,
    held_by,
    seed_digest,
    seed_rho,
    seed_rows,
    written_component,
    written_digest,
)
from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.gram_noise import component_noise
from fedvalue.protocol.gram.gram_opening import OpenedSums
from fedvalue.protocol.gram.prime_field import (
    Elements,
    expanded,
    from_bytes,
    minus,
    of_whole,
    products,
    reduced,
    times,
    to_bytes,
)
from fedvalue.protocol.result_inbox import make_seal

if TYPE_CHECKING:
    from fedvalue.protocol.chunk_store import ChunkStore
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.settings import Settings

N_TRIALS = 2
"""Independent random checks: what is wrong passes each with a chance of about 2^-30."""

_PIECE_ROWS = 1 << 12
"""Rows that are multiplied between two checkpoints: 10 s of processor time where there are most codes."""


class GramSums:
    """One server's part of a run.

    Args:
        settings: Of the run.
        server: Name of this server.
        credentials: Its keys.
        store: Where chunks wait for the coin and for the other parties'.
        checkpoint: Called between pieces of counting and of drawing noise; raises where the run is to end.
    """

    def __init__(
        self,
        settings: Settings,
        server: str,
        credentials: Credentials,
        store: ChunkStore,
        checkpoint: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._server = server
        self._number = settings.servers.index(server)
        self._held = held_by(self._number)
        self._to = m.Sender(settings.run_id, server).to
        self._credentials = credentials
        self._store = store
        self._checkpoint = checkpoint
        self._layout = GramLayout.of(settings)
        self._own = keys.subkey(credentials.seed, settings.run_id, "gram", settings.digest(), server)
        self._declared: dict[str, m.GramDeclaration] = {}
        self._digests: dict[str, dict[int, bytes]] = {party: {} for party in settings.everybody}
        self._pledges: dict[str, m.GramPledge] = {}
        self._coins: dict[str, m.GramCoin] = {}
        self._coin = b""
        self._n_counted = 0
        self._checks: dict[str, m.GramCheck] = {}
        self._reveals: dict[str, bytes] = {}
        self._tests: dict[str, m.GramTest] = {}
        self._sums: OpenedSums | None = None
        self.released = False
        width, n_parties = self._layout.width, len(settings.everybody)
        both = width + N_CHECKS
        self._gram = np.zeros((both, both), dtype=np.uint64)
        self._weighted = np.zeros((2, N_TRIALS, width + N_CHECKS * n_parties), dtype=np.uint64)
        self._squares = np.zeros((N_TRIALS, width), dtype=np.uint64)
        self._weights = np.zeros(N_TRIALS, dtype=np.uint64)

    @property
    def _others(self) -> tuple[str, ...]:
        return tuple(name for name in self._settings.servers if name != self._server)

    def late(self) -> tuple[str, ...]:
        """The participants whose messages are missing."""
        parties = tuple(p for p in self._settings.everybody if p not in self._declared or self.missing(p))
        if parties:
            return parties
        if self._sums is not None and len(self._reveals) < len(self._settings.everybody):
            return tuple(p for p in self._settings.everybody if p not in self._reveals)
        return self._others

    def missing(self, party: str) -> list[int]:
        """Numbers of the chunks that a party has declared and not sent."""
        if party not in self._declared or not self._writes(party):
            return []
        return [k for k in range(self._layout.n_chunks) if k not in self._digests[party]]

    def _writes(self, party: str) -> bool:
        """Whether a component of the party comes here in chunks."""
        return written_component(self._layout, party) in self._held

    # 1 and 2: declarations, coin and seeds.

    def take(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        """The next message; returns what to send."""
        match message:
            case m.GramDeclaration():
                out = self._declare(sender, message)
            case m.Chunk():
                out = self._add(sender, message)
            case m.GramPledge():
                self._pledges[sender] = message
                out = self._open_coin()
            case m.GramCoin():
                self._coins[sender] = message
                out = self._draw()
            case m.GramCheck():
                self._checks[sender] = message
                out = self._commit()
            case m.GramReveal():
                self._reveals[sender] = message.rho
                out = self._test()
            case m.GramTest():
                self._tests[sender] = message
                out = self._release()
            case _:
                raise RemoteProtocolError(f"no {type(message).__name__} under gram", code="E_STATE")
        return out

    def _declare(self, party: str, declared: m.GramDeclaration) -> list[m.Envelope]:
        keys.check_signature(
            self._credentials.pins[party], declared.signature, "gram-components", self._settings.run_id,
            party, *declared.digests,
        )  # fmt: skip
        written = written_component(self._layout, party)
        for component, seed in zip(self._held, declared.seeds, strict=True):
            if component == written:
                fits = not seed and len(declared.rho) == 4 * N_CHECKS * self._layout.width_of(party)
            else:
                fits = hmac.compare_digest(seed_digest(seed), declared.digests[component])
            if not fits:
                raise RemoteProtocolError(
                    f"{party!r} sent another component than it signed", code="E_DECLARED"
                )
        self._declared[party] = declared
        if len(self._declared) < len(self._settings.everybody):
            return []
        signed = {p: m.GramSigned(one.digests, one.signature) for p, one in self._declared.items()}
        return [
            self._to(
                other,
                m.GramPledge(
                    signed, self._hash("coin", self._coin_part()), self._hash("pair", self._pair_part(other))
                ),
            )
            for other in self._others
        ] + self._open_coin()

    def _coin_part(self) -> bytes:
        return keys.subkey(self._own, self._settings.run_id, "gram-coin")

    def _pair_part(self, other: str) -> bytes:
        return keys.subkey(self._own, self._settings.run_id, "gram-pair", other)

    def _hash(self, what: str, contribution: bytes) -> bytes:
        return keys.digest(b"gram-commit", what.encode(), self._settings.run_id, contribution)

    def _open_coin(self) -> list[m.Envelope]:
        """When every party has declared and both other servers have pledged the same."""
        if len(self._declared) < len(self._settings.everybody) or len(self._pledges) < len(self._others):
            return []
        for other, pledge in self._pledges.items():
            for party, own in self._declared.items():
                theirs = pledge.signed.get(party)
                if theirs is None or theirs.digests == own.digests:
                    continue
                keys.check_signature(
                    self._credentials.pins[party], theirs.signature, "gram-components",
                    self._settings.run_id, party, *theirs.digests,
                )  # fmt: skip
                raise VerificationError(
                    f"{party!r} signed different components for {self._server!r} and {other!r}",
                    code="E_SPLIT",
                )
            if set(pledge.signed) != set(self._declared):
                raise RemoteProtocolError(f"{other!r} pledged other parties", code="E_DECLARED")
        return [
            self._to(
                other,
                m.GramCoin(self._coin_part(), self._pair_part(other), self._pledges[self._third(other)].coin),
            )
            for other in self._others
        ] + self._draw()

    def _third(self, other: str) -> str:
        """The server that is neither this one nor `other`."""
        return next(name for name in self._others if name != other)

    def _draw(self) -> list[m.Envelope]:
        """When all contributions are here: the coin, and whatever chunks have come by now."""
        ready = len(self._pledges) == len(self._coins) == len(self._others)
        if not ready or len(self._declared) < len(self._settings.everybody) or self._coin:
            return []
        for other, coin in self._coins.items():
            pledge = self._pledges[other]
            if self._hash("coin", coin.coin) != pledge.coin or self._hash("pair", coin.pair) != pledge.pair:
                raise VerificationError(
                    f"{other!r} opened another seed than it had committed to", code="E_NOISE"
                )
            third = self._third(other)
            if coin.third != self._pledges[third].coin:
                raise VerificationError(
                    f"{third!r} committed to different coins towards {self._server!r} and {other!r}, or "
                    f"{other!r} misreports it",
                    code="E_EQUIVOCATION",
                )
        parts = {self._server: self._coin_part(), **{other: coin.coin for other, coin in self._coins.items()}}
        self._coin = keys.digest(b"gram-coin", *(parts[server] for server in self._settings.servers))
        return self._count()

    def _pair_seed(self, other: str) -> bytes:
        """Common to this server and another one."""
        parts = {self._server: self._pair_part(other), other: self._coins[other].pair}
        return keys.digest(b"gram-pair", *(parts[name] for name in self._settings.servers if name in parts))

    # 3: sums.

    def _add(self, party: str, chunk: m.Chunk) -> list[m.Envelope]:
        declared = self._declared.get(party)
        if (
            declared is None
            or not self._writes(party)
            or chunk.total != self._layout.n_chunks
            or chunk.index >= chunk.total
        ):
            raise RemoteProtocolError(f"{party!r} sent a chunk that it did not declare", code="E_DECLARED")
        expected = 4 * self._layout.rows(chunk.index) * (self._layout.width_of(party) + N_CHECKS)
        if len(chunk.data) != expected:
            raise RemoteProtocolError(
                f"{party!r}: chunk of {len(chunk.data)} bytes, expected {expected}", code="E_SIZE"
            )
        digests = self._digests[party]
        digests[chunk.index] = chunk.digest
        if len(digests) == self._layout.n_chunks:
            whole = written_digest(declared.salt, declared.rho, [digests[k] for k in range(len(digests))])
            if whole != declared.digests[written_component(self._layout, party)]:
                raise RemoteProtocolError(
                    f"{party!r} uploaded another component than it signed", code="E_DECLARED"
                )
        self._store.put(party, chunk.index, chunk.data)
        return self._count()

    def _count(self) -> list[m.Envelope]:
        """Count the next chunks as far as all of their rows are here."""
        if not self._coin:
            return []
        writers = [party for party in self._settings.everybody if self._writes(party)]
        while self._n_counted < self._layout.n_chunks:
            index = self._n_counted
            if any(index not in self._digests[party] for party in writers):
                return []
            self._count_chunk(index)
            for party in writers:
                self._store.discard(party, index)
            self._n_counted += 1
        return [self._to(other, self._check()) for other in self._others] + self._commit()

    def _count_chunk(self, index: int) -> None:
        first, second = (self._rows(component, index) for component in self._held)
        z, own = self._layout.width, _with_total(first, self._layout.width)
        both = reduced(own + (other := _with_total(second, z)))
        n_rows = self._layout.rows(index)
        for start in range(0, n_rows, _PIECE_ROWS):
            self._checkpoint()
            whole, part = (rows[start : start + _PIECE_ROWS] for rows in (both, other))
            self._gram = minus(reduced(self._gram + products(whole, whole)), products(part, part))
        weights = expanded(self._coin, "gram-weights", (n_rows, N_TRIALS), index.to_bytes(4, "big"))
        for place, rows in enumerate((first, second)):
            self._weighted[place] = reduced(self._weighted[place] + products(weights, rows))
        left, right = first[:, :z], second[:, :z]
        square = times(left, reduced(left + reduced(right + right)))
        self._squares = reduced(self._squares + products(weights, square))
        self._weights = reduced(self._weights + reduced(weights.sum(axis=0)))

    def _rows(self, component: int, index: int) -> Elements:
        """One component of all parties' rows: their one-hot columns side by side, then all check columns."""
        columns, checks = [], []
        for party in self._settings.everybody:
            if component == written_component(self._layout, party):
                shape = (self._layout.rows(index), self._layout.width_of(party) + N_CHECKS)
                rows = from_bytes(self._store.get(party, index), shape, who=party)
            else:
                seed = self._declared[party].seeds[self._held.index(component)]
                rows = seed_rows(self._layout, party, seed, index)
            columns.append(rows[:, :-N_CHECKS])
            checks.append(rows[:, -N_CHECKS:])
        return np.concatenate([*columns, *checks], axis=1)

    # 4: is every row one-hot?

    def _check(self) -> m.GramCheck:
        settings, layout = self._settings, self._layout
        of_column = expanded(self._coin, "gram-columns", (N_TRIALS, layout.width))
        of_feature = expanded(self._coin, "gram-features", (N_TRIALS, len(layout.sizes)))
        shape = (N_TRIALS, len(settings.everybody))
        sums, entries = np.zeros((2, *shape), dtype=np.uint64), np.zeros(shape, dtype=np.uint64)
        for p, party in enumerate(settings.everybody):
            own = layout.columns_of(party)
            excess = minus(self._squares[:, own], self._weighted[0][:, own])
            entries[:, p] = reduced(times(of_column[:, own], excess).sum(axis=1))
            for f in layout.features_of(party):
                for place, component in enumerate(self._held):
                    total = reduced(self._weighted[place][:, layout.columns(f)].sum(axis=1))
                    if component == 0:
                        total = minus(total, self._weights)
                    sums[place, :, p] = reduced(sums[place, :, p] + times(of_feature[:, f], total))
        entries = reduced(entries + self._mask("check", entries.shape))
        check = m.GramCheck(to_bytes(sums), to_bytes(entries))
        self._checks[self._server] = check
        return check

    def _mask(self, purpose: str, shape: tuple[int, ...]) -> Elements:
        """Numbers that add up to 0 over the three servers."""
        total = np.zeros(shape, dtype=np.uint64)
        for other in self._others:
            drawn = expanded(keys.subkey(self._pair_seed(other), b"", "mask"), purpose, shape)
            plus = self._number < self._settings.servers.index(other)
            total = reduced(total + drawn) if plus else minus(total, drawn)
        return total

    def _agreed(self, shape: tuple[int, ...], values: dict[str, bytes]) -> Elements:
        """The sum over all components of values that every holder sent.

        Raises:
            VerificationError: The two holders of a component sent different ones (E_SUMS).
        """
        by_component: dict[int, Elements] = {}
        for number, server in enumerate(self._settings.servers):
            held = from_bytes(values[server], (2, *shape), who=server)
            for component, value in zip(held_by(number), held, strict=True):
                if component in by_component and not np.array_equal(by_component[component], value):
                    raise VerificationError(
                        "two servers differ about what both hold: one is wrong", code="E_SUMS"
                    )
                by_component[component] = value
        return reduced(sum(by_component.values(), np.zeros(shape, dtype=np.uint64)))

    def _commit(self) -> list[m.Envelope]:
        """When all rows are known to be one-hot: commit to our sums."""
        if len(self._checks) < N_COMPONENTS:
            return []
        everybody = self._settings.everybody
        shape = (N_TRIALS, len(everybody))
        sums = self._agreed(shape, {server: check.sums for server, check in self._checks.items()})
        entries = np.zeros(shape, dtype=np.uint64)
        for server, check in self._checks.items():
            entries = reduced(entries + from_bytes(check.entries, shape, who=server))
        for p, party in enumerate(everybody):
            if sums[:, p].any() or entries[:, p].any():
                raise VerificationError(
                    f"a row of {party!r} does not have exactly one code per feature, or a server miscounts",
                    code="E_ONE_HOT",
                )
        self._sums = self._summed()
        commitment = m.GramCommitment(self._sums.commitment(self._settings.run_id, self._server))
        return [self._to(party, commitment) for party in everybody] + self._test()

    def _summed(self) -> OpenedSums:
        """Our share of the noisy products and of the check columns, masked."""
        width = self._layout.width
        own, following = (self._noise(component) for component in self._held)
        rho = [self._rho_component(place) for place in range(2)]
        share = reduced(self._gram[:width, :width] + own)
        # The noise times rho: component j of the noise with all of rho, between its two holders.
        check = self._gram[:width, width:]
        check = reduced(check + products(own, np.ascontiguousarray(reduced(rho[0] + rho[1]).T)))
        check = reduced(check + products(following, np.ascontiguousarray(rho[0].T)))
        cells = np.concatenate([share[np.triu_indices(width)], check.ravel()])
        cells = reduced(cells + self._mask("sums", cells.shape))
        salt = keys.subkey(self._own, self._settings.run_id, "gram-sums", length=16)
        return OpenedSums(to_bytes(cells), salt, {})

    def _noise(self, component: int) -> Elements:
        """The noise of a component that we hold; its other holder has the same."""
        other = next(
            name
            for number, name in enumerate(self._settings.servers)
            if component in held_by(number) and name != self._server
        )
        key = keys.subkey(self._pair_seed(other), b"", "noise")
        return of_whole(component_noise(self._layout, self._settings.privacy, key, self._checkpoint))

    def _rho_component(self, place: int) -> Elements:
        """A component of all parties' check weights, shape (N_CHECKS, width)."""
        parts = []
        for party in self._settings.everybody:
            declared = self._declared[party]
            if self._held[place] == written_component(self._layout, party):
                shape = (N_CHECKS, self._layout.width_of(party))
                parts.append(from_bytes(declared.rho, shape, who=party))
            else:
                parts.append(seed_rho(self._layout, party, declared.seeds[place]))
        return np.concatenate(parts, axis=1)

    # 6: are the check columns what the weights say?

    def _test(self) -> list[m.Envelope]:
        settings, layout = self._settings, self._layout
        if self._sums is None or len(self._reveals) < len(settings.everybody):
            return []
        values = np.zeros((2, N_TRIALS, N_CHECKS, len(settings.everybody)), dtype=np.uint64)
        revealed = []
        for p, party in enumerate(settings.everybody):
            own = layout.columns_of(party)
            rho = from_bytes(self._reveals[party], (N_CHECKS, layout.width_of(party)), who=party)
            revealed.append(rho)
            checks = slice(layout.width + N_CHECKS * p, layout.width + N_CHECKS * (p + 1))
            for place in range(2):
                weighted = self._weighted[place]
                due = products(np.ascontiguousarray(weighted[:, own].T), np.ascontiguousarray(rho.T))
                values[place, :, :, p] = minus(weighted[:, checks], due)
        test = m.GramTest(to_bytes(values), self._rho_digest(np.concatenate(revealed, axis=1)))
        self._tests[self._server] = test
        return [self._to(other, test) for other in self._others] + self._release()

    def _rho_digest(self, rho: Elements) -> bytes:
        """Of the three components that the weights must have, given the two that we hold.

        Without it a party could reveal other weights than it shared, and read the noise from the difference.
        """
        components = {self._held[place]: self._rho_component(place) for place in range(2)}
        third = ({0, 1, 2} - set(self._held)).pop()
        components[third] = minus(minus(rho, components[self._held[0]]), components[self._held[1]])
        return keys.digest(b"gram-rho", *(to_bytes(components[c]) for c in range(N_COMPONENTS)))

    def _release(self) -> list[m.Envelope]:
        """When every check column is right: open our sums to the parties."""
        if len(self._tests) < N_COMPONENTS:
            return []
        settings = self._settings
        if len({test.weights for test in self._tests.values()}) > 1:
            raise VerificationError(
                "a party revealed other check weights than it shared", code="E_CHECK_COLUMN"
            )
        shape = (N_TRIALS, N_CHECKS, len(settings.everybody))
        values = self._agreed(shape, {server: test.values for server, test in self._tests.items()})
        for p, party in enumerate(settings.everybody):
            if values[:, :, p].any():
                raise VerificationError(
                    f"a check column of {party!r} is not what its weights say", code="E_CHECK_COLUMN"
                )
        assert self._sums is not None
        opened = msgspec.structs.replace(self._sums, rho={p: self._reveals[p] for p in settings.everybody})
        data, size = msgspec.msgpack.encode(opened), settings.chunk_bytes
        total = -(-len(data) // size)
        parts = [data[k * size : (k + 1) * size] for k in range(total)]
        chunks = [
            m.ResultChunk(k, total, m.bulk_digest(k, total, part), part) for k, part in enumerate(parts)
        ]
        seal = make_seal(
            self._credentials.signing_key, settings.run_id, self._server,
            keys.digest(*(chunk.digest for chunk in chunks)),
        )  # fmt: skip
        self.released = True
        messages: tuple[m.AnyMessage, ...] = (*chunks, seal)
        return [self._to(party, message) for party in settings.everybody for message in messages]


def _with_total(rows: Elements, width: int) -> Elements:
    """One-hot columns, and the sums over all parties of their check columns."""
    checks = rows[:, width:].reshape(len(rows), -1, N_CHECKS).sum(axis=1)
    return np.ascontiguousarray(np.concatenate([rows[:, :width], reduced(checks)], axis=1))
