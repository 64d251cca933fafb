"""The sums that the three servers open, and the tables that they add up to.

A party checks them at the end of its run, and anybody who reads a certificate can check them again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol.gram.gram_layout import N_CHECKS, GramLayout
from fedvalue.protocol.gram.prime_field import centred, from_bytes, products, reduced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.information.pair_tables import PairTables
    from fedvalue.protocol.settings import Settings

FAR = 64
"""Standard deviations of noise that no honest cell is outside its range."""


class OpenedSums(msgspec.Struct, frozen=True):
    """What a server opens to the parties.

    Args:
        cells: Its share of the upper triangle of the matrix of all products, then of the check columns.
        salt: Of its commitment.
        rho: What it got from every party.
    """

    cells: bytes
    salt: bytes
    rho: dict[str, bytes]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"  # until all have committed, the cells are secret

    def commitment(self, run_id: bytes, server: str) -> bytes:
        """What the server had to commit to."""
        return keys.digest(b"gram-sums", run_id, server.encode(), self.salt, self.cells)

    @classmethod
    def decode(cls, data: bytes) -> OpenedSums:
        """What a server sent.

        Raises:
            RemoteProtocolError: E_MALFORMED.
        """
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, ValueError, OverflowError) as error:
            raise RemoteProtocolError("a result is malformed", code="E_MALFORMED") from error


def opened_tables(settings: Settings, opened: Mapping[str, OpenedSums]) -> PairTables:
    """The tables that the servers' sums add up to, after every check that needs no secret.

    Args:
        settings: Of the run.
        opened: By server.

    Raises:
        VerificationError: The servers used different check weights (E_EQUIVOCATION), their sums do not fit
            together (E_SUMS), or exact counts do not add up (E_TOTAL).
        RemoteProtocolError: A number is out of range.
    """
    layout = GramLayout.of(settings)
    first, *others = opened.values()
    if any(other.rho != first.rho for other in others) or set(first.rho) != set(layout.everybody):
        raise VerificationError("the servers got different check weights", code="E_EQUIVOCATION")
    upper = np.triu_indices(layout.width)
    n_cells = len(upper[0])
    shape = (n_cells + layout.width * N_CHECKS,)
    total = np.zeros(shape, dtype=np.uint64)
    for server, one in opened.items():
        total += from_bytes(one.cells, shape, who=server)
    total = reduced(total)
    gram = np.zeros((layout.width, layout.width), dtype=np.uint64)
    gram[upper] = total[:n_cells]
    gram = np.triu(gram) + np.triu(gram, 1).T
    check = total[n_cells:].reshape(layout.width, N_CHECKS)
    rho = np.concatenate(
        [from_bytes(first.rho[p], (N_CHECKS, layout.width_of(p)), who=p) for p in layout.everybody],
        axis=1,
    )
    if not np.array_equal(products(gram, np.ascontiguousarray(rho.T)), check):
        raise VerificationError("the servers' sums do not fit together: one of them is wrong", code="E_SUMS")
    return _tables(settings, layout, centred(gram))


def _tables(settings: Settings, layout: GramLayout, gram: NDArray[np.int64]) -> PairTables:
    privacy = settings.privacy
    label, pair, one_way = 0.0, 0.0, 0.0
    if privacy is not None:
        label, pair, one_way = (
            privacy.total(privacy.label_variance),
            privacy.total(privacy.pair_variance),
            privacy.total(privacy.one_way_variance),
        )
    far = FAR * math.sqrt(max(label, pair, one_way))
    if gram.min() < -far or gram.max() > settings.n_samples + far:
        raise RemoteProtocolError("a cell is outside its range", code="E_RANGE")
    if privacy is None:
        for feature in range(len(layout.sizes)):
            own = layout.columns(feature)
            if int(np.diag(gram[own, own]).sum()) != settings.n_samples:
                raise VerificationError("counts do not add up to the number of samples", code="E_TOTAL")
    return layout.tables(gram, label, pair)
