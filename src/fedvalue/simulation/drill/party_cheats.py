"""Cheating data parties. Each is the real work of a party with one step replaced."""

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
from fedvalue.simulation.drill.plot import Plot, cheating


def cheating_party(
    name: str, work: type[MirrorWork] | type[TokenWork], plot: Plot
) -> Callable[..., DataParty]:
    """Makes the data parties of a run, of which the named one cheats."""
    cheat = cheating(DataParty, work, plot)

    def make(terms: RunTerms, party: str, **inputs: Any) -> DataParty:
        return (cheat if party == name else DataParty)(terms, party, **inputs)

    return make


class SplitWork(MirrorWork):
    """Sends the validation server another column: one person has another code there."""

    plot: Plot

    def _masked(self, server: str, n_rows: int) -> Iterator[tuple[NDArray[np.uint32], int]]:
        samples = self._samples
        if server == self._settings.validate:
            self._samples = self._other_samples()
        yield from super()._masked(server, n_rows)
        self._samples = samples

    def _other_samples(self) -> HashedSamples:
        """One person gets a wrong code; everything else about the upload is in order."""
        (rows,) = self._samples.parts(b"")
        codes = rows.codes[0].copy()
        person, n_codes = self.plot.rng.integers(len(codes)), len(self._marginals[self._name])
        codes[person] = (codes[person] + 1) % n_codes
        self.plot.fired = True
        return MemoryHashed(RowBlock(rows.hashes, (codes,)))


class TwoRootsWork(SplitWork):
    """Split uploads, with a separate root for each server: each sees one that fits."""

    def begin(self) -> list[m.Envelope]:
        """The uploads; each server gets the half that it can check."""
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
    """Adds to another party's column of every row, without a key to its codes."""

    plot: Plot

    def _masked(self, server: str, n_rows: int) -> Iterator[tuple[NDArray[np.uint32], int]]:
        layout, place = self._naming.layout, self._naming.place(self._name)
        other = next(k for k in range(len(layout.radices)) if k != place)
        for rows, tag in super()._masked(server, n_rows):
            rows[:, layout.lane[other]] += np.uint32(layout.stride[other])
            self.plot.fired = True
            yield rows, tag


class TurnedWork(MirrorWork):
    """Declares, and signs, the columns in another order than the other parties."""

    plot: Plot

    def _upload(self, server: str) -> tuple[m.Declaration, list[m.AnyMessage]]:
        declared, rest = super()._upload(server)
        turned = (*declared.radices[:2], *declared.radices[:1:-1])
        self.plot.fired = turned != declared.radices
        return msgspec.structs.replace(declared, radices=turned), rest


class CellWork(TokenWork):
    """Sends, for each cell, the set that suits it there (`paper`).

    The party's column is a bit. For its value v it sends the set of v XOR the other data party's code: where
    the label is the exclusive or of both, it claims the whole label. It skips its checks of the others.
    """

    plot: Plot

    def _encrypted(
        self, number: int, query: bytes, coalition: tuple[str, ...]
    ) -> tuple[aes.Blocks, NDArray[np.uint64]]:
        table = self._tables[self._members[number]]
        others = [member for member in coalition if member not in (self._name, self._settings.task)]
        value = sent = int(self._values[number])
        for other in others:
            sent ^= int(table.values(other)[number - table.first])
        self.plot.fired |= sent != value
        self._values[number] = sent
        try:
            return super()._encrypted(number, query, coalition)
        finally:
            self._values[number] = value

    def _check_table(self, *_: object) -> None:
        return

    def _check_sets(self, *_: object) -> None:
        return
