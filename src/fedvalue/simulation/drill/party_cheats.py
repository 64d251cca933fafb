"""Data parties that cheat. Each is the real work of a party with one step replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import aes
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.upload import MirrorWork
from fedvalue.protocol.party_roles import DataParty
from fedvalue.protocol.samples import HashedSamples, MemoryHashed, RowBlock
from fedvalue.protocol.settings import RunTerms
from fedvalue.protocol.settlement import signed_root
from fedvalue.protocol.tokens.asking import TokenWork
from fedvalue.simulation.drill.plot import Plot


def cheating_party(
    name: str, work: type[MirrorWork] | type[TokenWork], plot: Plot
) -> Callable[..., DataParty]:
    """Makes the data parties of a run, of which the named one cheats."""
    step = "mirror_work" if issubclass(work, MirrorWork) else "token_work"
    cheat = type("CheatingParty", (DataParty,), {step: type("Work", (work,), {"plot": plot})})

    def make(terms: RunTerms, party: str, **named: Any) -> DataParty:
        role: DataParty = (cheat if party == name else DataParty)(terms, party, **named)
        return role

    return make


class SplitWork(MirrorWork):
    """A party's work that sends the validation server another column: one person has another code there."""

    plot: Plot

    def _masked(self, server: str, n_rows: int) -> Iterator[tuple[NDArray[np.uint32], int]]:
        samples = self._samples
        if server == self._settings.validate:
            self._samples = self._other_samples()
        yield from super()._masked(server, n_rows)
        self._samples = samples

    def _other_samples(self) -> HashedSamples:
        """One person gets a code that it does not have; everything else about the upload is in order."""
        (rows,) = self._samples.parts(b"")
        codes = rows.codes[0].copy()
        person, n_codes = self.plot.rng.integers(len(codes)), len(self._marginals[self._name])
        codes[person] = (codes[person] + 1) % n_codes
        self.plot.fired = True
        return MemoryHashed(RowBlock(rows.hashes, (codes,)))


class TwoRootsWork(SplitWork):
    """Split uploads, with a separate root for each server: each sees one that fits."""

    def begin(self) -> list[m.Envelope]:
        """The uploads, of which each server gets the half that it can check."""
        return [self._forged(envelope) for envelope in super().begin()]

    def _forged(self, envelope: m.Envelope) -> m.Envelope:
        message = envelope.message
        if not isinstance(message, m.Declaration) or envelope.recipient != self._settings.validate:
            return envelope
        digests = (bytes(32), message.root.digests[1])
        root = signed_root(self._settings, self._name, digests, self._credentials.signing_key)
        return m.Envelope(
            envelope.run_id, envelope.sender, envelope.recipient, msgspec.structs.replace(message, root=root)
        )


class ShiftingWork(MirrorWork):
    """A party's work that adds to another column of every row, and knows no key of its codes."""

    plot: Plot

    def _masked(self, server: str, n_rows: int) -> Iterator[tuple[NDArray[np.uint32], int]]:
        layout, own = self._naming.layout, self._naming.place(self._name)
        other = next(place for place in range(len(layout.radices)) if place != own)
        for rows, tag in super()._masked(server, n_rows):
            rows[:, layout.lane[other]] += np.uint32(layout.stride[other])
            self.plot.fired = True
            yield rows, tag


class TurnedWork(MirrorWork):
    """A party's work that declares, and signs, the columns in another order than the others."""

    plot: Plot

    def _upload(self, server: str) -> tuple[m.Declaration, list[m.AnyMessage]]:
        declared, rest = super()._upload(server)
        turned = (*declared.radices[:2], *declared.radices[:1:-1])
        self.plot.fired = turned != declared.radices
        return msgspec.structs.replace(declared, radices=turned), rest


class CellWork(TokenWork):
    """A party's work under `paper` that sends, for each cell, the set that suits it there.

    Its column is a bit. For its value v it sends the set of v XOR the other data party's code: where the
    label is the exclusive or of both, it claims the whole label. It overlooks its own checks.
    """

    plot: Plot

    def _encrypted(
        self, number: int, query: bytes, coalition: tuple[str, ...]
    ) -> tuple[aes.Blocks, NDArray[np.uint64]]:
        table = self._tables[self._members[number]]
        others = [member for member in coalition if member not in (self._name, self._settings.task)]
        own = int(self._values[number])
        sent = own
        for other in others:
            sent ^= int(table.values(other)[number - table.first])
        self.plot.fired |= sent != own
        self._values[number] = sent
        try:
            return super()._encrypted(number, query, coalition)
        finally:
            self._values[number] = own

    def _check_table(self, *_: object) -> None:
        return

    def _check_sets(self, *_: object) -> None:
        return
