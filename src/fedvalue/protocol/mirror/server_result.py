"""The bytes of a `mirror` result: sealed values, or cells."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.codec import decode_as
from fedvalue.protocol.mirror.row_layout import RowLayout
from fedvalue.protocol.outcome import Answer, Fields

SHARE_CONTEXT = keys.info("share")
TASK_CONTEXT = keys.info("share-task")


class ValuesResult(msgspec.Struct, frozen=True, tag="values"):
    """Policy `valuation`: the public part, and sealed shares by secret coordinate."""

    n_samples: int
    public: Fields
    task: bytes
    shares: tuple[bytes, ...]


class CountsResult(msgspec.Struct, frozen=True, tag="counts"):
    """Policy `counts`: cells as little-endian uint64 words, and their counts.

    The server's signature on a digest of this goes to all parties, and data parties know the names of the
    cells: without the server's secret `salt` they could try tables until one fits.
    """

    n_samples: int
    words: bytes
    counts: bytes
    salt: bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_samples={self.n_samples}, ...)"

    def cells(self, layout: RowLayout) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Cells and counts as arrays.

        Raises:
            RemoteProtocolError: Sizes do not match (E_DECLARED), or a cell or a count is outside its
                range (E_RANGE).
            VerificationError: The counts do not add up to `n_samples` (E_TOTAL).
        """
        n = len(self.counts) // 8
        if len(self.counts) % 8 or len(self.words) != 8 * n * layout.n_lanes or n == 0:
            raise RemoteProtocolError("cells and counts do not fit together", code="E_DECLARED")
        words = np.frombuffer(self.words, dtype="<u8").reshape(n, layout.n_lanes)
        counts = np.frombuffer(self.counts, dtype="<i8")
        if (words >= layout.limits()).any() or counts.min() < 1 or counts.max() > self.n_samples:
            raise RemoteProtocolError("a cell or a count is outside its range", code="E_RANGE")
        if int(counts.sum()) != self.n_samples:
            raise VerificationError("counts do not add up to the number of samples", code="E_TOTAL")
        return words, counts


def sealed_values(answer: Answer, share_keys: m.ShareKeys, n_samples: int) -> ValuesResult:
    """The answer with every share sealed under its coordinate's key."""
    encode = msgspec.msgpack.encode
    task, *shares = (encode(fields) for fields in (answer.task, *answer.shares))
    longest = max(map(len, shares), default=0)
    return ValuesResult(
        n_samples=n_samples,
        public=answer.public,
        task=keys.seal(share_keys.task, keys.padded(task, len(task)), TASK_CONTEXT),
        shares=tuple(
            keys.seal(key, keys.padded(share, longest), SHARE_CONTEXT)
            for key, share in zip(share_keys.shares, shares, strict=True)
        ),
    )


_results: msgspec.msgpack.Decoder[ValuesResult | CountsResult] = msgspec.msgpack.Decoder(
    ValuesResult | CountsResult
)
_shares = msgspec.msgpack.Decoder(Fields)


def decode_result(data: bytes) -> ValuesResult | CountsResult:
    """A server's result.

    Raises:
        RemoteProtocolError: Not a result (E_MALFORMED).
    """
    return decode_as(_results, data, what="a result")


def open_share(key: bytes, sealed: bytes, context: bytes) -> Fields:
    """Unseal and decode a share.

    Raises:
        VerificationError: The key does not open it (E_SEAL).
        RemoteProtocolError: Not a share (E_MALFORMED).
    """
    return decode_as(_shares, keys.unpadded(keys.unseal(key, sealed, context)), what="a share")
