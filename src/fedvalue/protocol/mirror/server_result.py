"""The bytes of a `mirror` result: sealed values, or cells."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.mirror.row_layout import RowLayout
from fedvalue.protocol.outcome import Answer, Fields

SHARE_CONTEXT = keys.info("share")
TASK_CONTEXT = keys.info("share-task")


class ValuesResult(msgspec.Struct, frozen=True, tag="values"):
    """Policy `valuation`: what everybody may read, and sealed shares by secret coordinate."""

    n_samples: int
    public: Fields
    task: bytes
    shares: tuple[bytes, ...]


class CountsResult(msgspec.Struct, frozen=True, tag="counts"):
    """Policy `counts`: cells as little-endian uint64 words, and their counts.

    The server's signature on a digest of this goes to all parties, and data parties know what the cells are
    called: without the server's secret `salt` they could try tables until one fits.
    """

    n_samples: int
    words: bytes
    counts: bytes
    salt: bytes

    def cells(self, layout: RowLayout) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Cells and counts as arrays.

        Raises:
            RemoteProtocolError: Sizes do not fit (E_DECLARED), or a cell or a count is outside its
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


def sealed_values(answer: Answer, keyring: m.ShareKeys, n_samples: int) -> ValuesResult:
    """The answer with every share sealed under its coordinate's key."""
    encode = msgspec.msgpack.encode
    task, shares = encode(answer.task), [encode(share) for share in answer.shares]
    longest = max(map(len, shares), default=0)
    return ValuesResult(
        n_samples=n_samples,
        public=answer.public,
        task=keys.seal(keyring.task, keys.padded(task, len(task)), TASK_CONTEXT),
        shares=tuple(
            keys.seal(key, keys.padded(share, longest), SHARE_CONTEXT)
            for key, share in zip(keyring.shares, shares, strict=True)
        ),
    )


def encode_result(result: ValuesResult | CountsResult) -> bytes:
    """The result as bytes."""
    return msgspec.msgpack.encode(result)


_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ValuesResult | CountsResult)


def decode_result(data: bytes) -> ValuesResult | CountsResult:
    """The inverse of `encode_result`, for bytes that come from a server.

    Raises:
        RemoteProtocolError: Not a result (E_MALFORMED).
    """
    try:
        result: ValuesResult | CountsResult = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise RemoteProtocolError("a result is malformed", code="E_MALFORMED") from error
    return result


def decode_fields(data: bytes) -> Fields:
    """A share, opened and still padded.

    Raises:
        RemoteProtocolError: Not a share (E_MALFORMED).
    """
    try:
        return msgspec.msgpack.decode(keys.unpadded(data), type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise RemoteProtocolError("a share is malformed", code="E_MALFORMED") from error
