"""A server's side of `gram`: sums of products of the two components that it holds of every party.

1. and 2. Compare what parties signed, and draw a common coin and seeds (`coin_toss`).
3. Send the server before us what it needs about the noise of the one after us (`GramSigns`, `sign_noise`).
   Add up chunk by chunk, in one pass (`row_sums`); a chunk is discarded when it is counted.
4. Exchange checks (`GramCheck`): every row is one-hot (`gram_checks`).
5. Commit to the sums (`GramCommitment` to the parties), which then reveal their check weights.
6. Check that the check columns are what the weights say, and the signs what their keys say (`GramTest`). Only
   then open the sums, to the parties alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError
from fedvalue.protocol import messages as m
from fedvalue.protocol.gram.coin_toss import CoinToss
from fedvalue.protocol.gram.components import (
    N_COMPONENTS,
    held_by,
    seed_rho,
    seed_rows,
    written_component,
    written_digest,
)
from fedvalue.protocol.gram.gram_checks import (
    column_test,
    entry_check,
    row_check,
    verify_columns,
    verify_one_hot,
)
from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.gram_noise import component_noise
from fedvalue.protocol.gram.gram_opening import OpenedSums
from fedvalue.protocol.gram.prime_field import (
    Elements,
    Words,
    from_bytes,
    minus,
    of_whole,
    plus,
    products,
    to_bytes,
    words_of,
)
from fedvalue.protocol.gram.row_sums import RowSums, Totals
from fedvalue.protocol.gram.sign_noise import OwnDraw, ReceivedLines, SignPlan, own_draw, pieces
from fedvalue.protocol.signed_results import signed_result

if TYPE_CHECKING:
    from fedvalue.protocol.chunk_store import ChunkStore
    from fedvalue.protocol.keyring import Credentials
    from fedvalue.protocol.settings import Settings


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
        self._held = held_by(settings.servers.index(server))
        first, _ = self._held
        self._before, self._after = settings.servers[first - 1], settings.servers[self._held[1]]
        self._to = m.Sender(settings.run_id, server).to
        self._credentials = credentials
        self._store = store
        self._checkpoint = checkpoint
        self._layout = GramLayout.of(settings)
        self._own = keys.subkey(credentials.seed, settings.run_id, "gram", settings.digest(), server)
        self._toss = CoinToss(settings, server, credentials, self._own)
        self._digests: dict[str, dict[int, bytes]] = {party: {} for party in settings.everybody}
        self._plan = SignPlan.of(self._layout, settings.privacy)
        self._coefficients = keys.subkey(self._own, settings.run_id, "gram-coefficients")
        self._lines = ReceivedLines(self._plan, self._coefficients)
        self._early: list[m.GramSigns] = []
        self._draw: OwnDraw | None = None
        self._n_counted = 0
        self._rows: RowSums | None = None
        self._totals: Totals | None = None
        self._checks: dict[str, m.GramCheck] = {}
        self._reveals: dict[str, bytes] = {}
        self._tests: dict[str, m.GramTest] = {}
        self._sums: OpenedSums | None = None
        self.released = False

    def late(self) -> tuple[str, ...]:
        """The participants whose messages are missing."""
        everybody = self._settings.everybody
        parties = tuple(p for p in everybody if p not in self._toss.declared or self.missing(p))
        if parties:
            return parties
        if self._sums is not None and len(self._reveals) < len(everybody):
            return tuple(p for p in everybody if p not in self._reveals)
        return self._toss.others

    def missing(self, party: str) -> list[int]:
        """Numbers of the chunks that a party has declared and not sent."""
        if party not in self._toss.declared or not self._writes(party):
            return []
        return [k for k in range(self._layout.n_chunks) if k not in self._digests[party]]

    def _writes(self, party: str) -> bool:
        """Whether a component of the party comes here in chunks."""
        return written_component(self._layout, party) in self._held

    def take(self, sender: str, message: m.AnyMessage) -> list[m.Envelope]:
        """The next message; returns what to send."""
        match message:
            case m.GramDeclaration():
                out = self._toss.declare(sender, message) + self._begin()
            case m.GramPledge():
                out = self._toss.pledge(sender, message) + self._begin()
            case m.GramCoin():
                self._toss.take_coin(sender, message)
                out = self._begin()
            case m.Chunk():
                out = self._add(sender, message)
            case m.GramSigns():
                out = self._take_signs(sender, message)
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

    # 3: sums.

    def _begin(self) -> list[m.Envelope]:
        """When the coin is drawn: send signs, and count the chunks that are here by now."""
        if not self._toss.coin or self._rows is not None:
            return []
        self._rows = RowSums(self._layout, self._toss.coin, self._checkpoint)
        signs = [self._to(self._before, message) for message in self._signs()]
        for message in self._early:
            self._add_signs(message)
        self._early.clear()
        return signs + self._count()

    def _signs(self) -> Iterator[m.GramSigns]:
        """About the noise of the server after us: it lacks the component of rho that is our first."""
        key, rho = self._toss.noise_key(self._held[1]), self._rho_component(0)
        for index, values in enumerate(pieces(self._plan, key, rho)):
            self._checkpoint()
            salt = keys.subkey(
                self._own, self._settings.run_id, "gram-signs", index.to_bytes(4, "big"), length=16
            )
            digest = m.bulk_digest(index, self._plan.n_pieces, salt, values)
            yield m.GramSigns(index, self._plan.n_pieces, digest, salt, memoryview(values))

    def _take_signs(self, server: str, signs: m.GramSigns) -> list[m.Envelope]:
        if server != self._after:
            raise RemoteProtocolError(f"{server!r} sends its signs to another server", code="E_SENDER")
        if signs.total != self._plan.n_pieces or signs.index >= signs.total:
            raise RemoteProtocolError(f"{server!r} sent signs that this run does not have", code="E_DECLARED")
        if self._rows is None:
            self._early.append(signs)
            return []
        self._add_signs(signs)
        return self._send_check()

    def _add_signs(self, signs: m.GramSigns) -> None:
        """About the noise of the server before us."""
        values = from_bytes(signs.data, self._plan.shape(signs.index), who=self._after)
        self._lines.add(signs.index, values, self._toss.noise_key(self._held[0]))

    def _add(self, party: str, chunk: m.Chunk) -> list[m.Envelope]:
        declared = self._toss.declared.get(party)
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
        if self._rows is None:
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
        self._totals = self._rows.total()
        return self._send_check()

    def _count_chunk(self, index: int) -> None:
        assert self._rows is not None
        self._rows.add(index, *(self._component(component, index) for component in self._held))

    def _component(self, component: int, index: int) -> Words:
        """A component of a chunk: one-hot columns of all parties side by side, then all check columns."""
        layout, n_rows = self._layout, self._layout.rows(index)
        found = np.empty((n_rows, layout.width + N_CHECKS * len(layout.everybody)), dtype=np.uint32)
        for p, party in enumerate(layout.everybody):
            if component == written_component(layout, party):
                shape = (n_rows, layout.width_of(party) + N_CHECKS)
                rows = words_of(self._store.get(party, index), shape, who=party)
            else:
                seed = self._toss.declared[party].seeds[self._held.index(component)]
                rows = seed_rows(layout, party, seed, index)
            found[:, layout.columns_of(party)] = rows[:, :-N_CHECKS]
            at = layout.width + N_CHECKS * p
            found[:, at : at + N_CHECKS] = rows[:, -N_CHECKS:]
        return found

    # 4: is every row one-hot?

    def _send_check(self) -> list[m.Envelope]:
        """When all rows are counted, and all signs are here: they must not depend on our coefficients."""
        if self._totals is None or not self._lines.complete or self._server in self._checks:
            return []
        check = self._check()
        return [self._to(other, check) for other in self._toss.others] + self._commit()

    def _check(self) -> m.GramCheck:
        assert self._totals is not None
        layout, coin = self._layout, self._toss.coin
        entries = entry_check(layout, coin, self._totals)
        check = m.GramCheck(
            to_bytes(row_check(layout, coin, self._totals, self._held)),
            to_bytes(plus(entries, self._toss.mask("check", entries.shape))),
            self._coefficients,
        )
        self._checks[self._server] = check
        return check

    # 5: commit to our sums.

    def _commit(self) -> list[m.Envelope]:
        """When all rows are known to be one-hot."""
        if len(self._checks) < N_COMPONENTS:
            return []
        verify_one_hot(self._layout, self._checks, self._settings.servers)
        self._sums = self._summed()
        commitment = m.GramCommitment(self._sums.commitment(self._settings.run_id, self._server))
        return [self._to(party, commitment) for party in self._settings.everybody] + self._test()

    def _summed(self) -> OpenedSums:
        """Our share of the noisy products and of the check columns, masked."""
        assert self._totals is not None
        draw = self._draw = self._own_draw()
        width = self._layout.width
        own, following = (self._noise(component) for component in self._held)
        own = plus(own, of_whole(self._plan.as_matrix(draw.noise, width)))
        rho = [self._rho_component(place) for place in range(2)]
        share = plus(self._totals.products, own)
        # The noise times rho: component j of the noise with all of rho, between its two holders.
        check = plus(self._totals.checks, products(own, np.ascontiguousarray(plus(rho[0], rho[1]).T)))
        check = plus(check, products(following, np.ascontiguousarray(rho[0].T)))
        # The component of rho that the owner of a draw lacks, between the two others.
        across = minus(self._lines.products, draw.masked)
        check = plus(check, self._plan.in_check_columns(across, width))
        cells = np.concatenate([share[np.triu_indices(width)], check.ravel()])
        cells = plus(cells, self._toss.mask("sums", cells.shape))
        salt = keys.subkey(self._own, self._settings.run_id, "gram-sums", length=16)
        return OpenedSums(to_bytes(cells), salt, {})

    def _own_draw(self) -> OwnDraw:
        """The noise in tables with the label that no other server knows."""
        own, following = (self._toss.noise_key(component) for component in self._held)
        return own_draw(self._plan, own, following, self._checks[self._after].coefficients, self._checkpoint)

    def _noise(self, component: int) -> Elements:
        key = self._toss.noise_key(component)
        return of_whole(component_noise(self._layout, self._settings.privacy, key, self._checkpoint))

    def _rho_component(self, place: int) -> Elements:
        """A component of all parties' check weights, shape (N_CHECKS, width)."""
        parts = []
        for party in self._settings.everybody:
            declared = self._toss.declared[party]
            if self._held[place] == written_component(self._layout, party):
                shape = (N_CHECKS, self._layout.width_of(party))
                parts.append(from_bytes(declared.rho, shape, who=party))
            else:
                parts.append(seed_rho(self._layout, party, declared.seeds[place]))
        return np.concatenate(parts, axis=1)

    # 6: are the check columns what the weights say?

    def _test(self) -> list[m.Envelope]:
        if self._sums is None or len(self._reveals) < len(self._settings.everybody):
            return []
        assert self._totals is not None
        assert self._draw is not None
        values, rho = column_test(self._layout, self._totals, self._reveals)
        test = m.GramTest(to_bytes(values), self._rho_digest(rho), self._draw.answer)
        self._tests[self._server] = test
        return [self._to(other, test) for other in self._toss.others] + self._release()

    def _rho_digest(self, rho: Elements) -> bytes:
        """Of the three components that the weights must have, given the two that we hold.

        Without it a party could reveal other weights than it shared, and read the noise from the difference.
        """
        components = {self._held[place]: self._rho_component(place) for place in range(2)}
        third = ({0, 1, 2} - set(self._held)).pop()
        components[third] = minus(minus(rho, components[self._held[0]]), components[self._held[1]])
        return keys.digest(b"gram-rho", *(to_bytes(components[c]) for c in range(N_COMPONENTS)))

    def _release(self) -> list[m.Envelope]:
        """When every check column is right, and so are the signs: open our sums to the parties."""
        if len(self._tests) < N_COMPONENTS:
            return []
        settings = self._settings
        verify_columns(self._layout, self._tests, settings.servers)
        self._lines.verify(
            self._tests[self._before].signs, self._rho_component(1), sender=self._after, owner=self._before
        )
        assert self._sums is not None
        opened = msgspec.structs.replace(self._sums, rho={p: self._reveals[p] for p in settings.everybody})
        chunks, seal = signed_result(
            self._credentials.signing_key, settings.run_id, self._server, msgspec.msgpack.encode(opened),
            settings.chunk_bytes,
        )  # fmt: skip
        self.released = True
        messages: tuple[m.AnyMessage, ...] = (*chunks, seal)
        return [self._to(party, message) for party in settings.everybody for message in messages]
