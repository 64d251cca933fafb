"""Time stamps of RFC 3161: a third party states that a file existed at a moment.

This module asks for a time stamp and compares the answer with the request: the digest, the nonce, the status.
It does not verify the authority's signature, which needs the authority's certificates: `openssl ts -verify`
does, and messages say so.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator

from fedvalue.errors import ConfigError, TransportError, VerificationError

MAX_BYTES = 1 << 20
_SHA256 = bytes.fromhex("300d06096086480165030402010500")
"""AlgorithmIdentifier of SHA-256, with NULL parameters."""
_SEQUENCE, _INTEGER, _OCTETS, _TIME = 0x30, 0x02, 0x04, 0x18
_SECONDS = 20


def ask(content: bytes, url: str) -> bytes:
    """Ask the authority at `url` for a time stamp of `content`, and compare the reply with the request.

    Raises:
        ConfigError: The address is not http or https.
        TransportError: The authority does not answer.
        VerificationError: E_TIMESTAMP: its answer is about something else, or a refusal.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"a time stamp authority has an http or https address, got {url!r}")
    nonce = secrets.token_bytes(8)
    request = urllib.request.Request(  # noqa: S310  checked above
        url, data=time_stamp_request(content, nonce), headers={"Content-Type": "application/timestamp-query"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:  # noqa: S310
            answer: bytes = reply.read(MAX_BYTES)
    except (urllib.error.URLError, OSError) as error:
        raise TransportError(f"the time stamp authority at {url} does not answer: {error}") from None
    time_stamped(content, answer, nonce)
    return answer


def time_stamp_request(content: bytes, nonce: bytes) -> bytes:
    """A DER-encoded TimeStampReq for the SHA-256 of `content` that asks for the authority's certificate."""
    imprint = _der(_SEQUENCE, _SHA256 + _der(_OCTETS, hashlib.sha256(content).digest()))
    number = _der(_INTEGER, b"\x00" + nonce if nonce[0] & 0x80 else nonce)
    return _der(_SEQUENCE, _der(_INTEGER, b"\x01") + imprint + number + b"\x01\x01\xff")


def time_stamped(content: bytes, reply: bytes, nonce: bytes | None = None) -> dt.datetime:
    """The moment at which, the authority states, `content` existed.

    Raises:
        VerificationError: E_TIMESTAMP: refused, malformed, or about other content.
    """
    try:
        status, info = _token_info(reply)
        parts = list(_items(info))
        imprint = list(_items(parts[2][1]))
        digest = imprint[1][1]
        moment = next(body for tag, body in parts if tag == _TIME).decode("ascii")
        numbers = [body for tag, body in parts[4:] if tag == _INTEGER]
    except (IndexError, ValueError, StopIteration, UnicodeDecodeError):
        raise VerificationError("not a time stamp that was granted", code="E_TIMESTAMP") from None
    if status not in (0, 1):
        raise VerificationError(f"the authority refused, status {status}", code="E_TIMESTAMP")
    if digest != hashlib.sha256(content).digest():
        raise VerificationError("the time stamp is about another file", code="E_TIMESTAMP")
    if nonce is not None and int.from_bytes(nonce) not in map(int.from_bytes, numbers):
        raise VerificationError("the time stamp answers another request", code="E_TIMESTAMP")
    return dt.datetime.strptime(moment[:14], "%Y%m%d%H%M%S").replace(tzinfo=dt.UTC)


def _token_info(reply: bytes) -> tuple[int, bytes]:
    """The status of a reply, and the content of its TSTInfo (RFC 3161, 2.4.2)."""
    (_, response), *_ = _items(reply)
    status_info, *token = _items(response)
    status = int.from_bytes(next(_items(status_info[1]))[1])
    content_info = list(_items(token[0][1]))  # contentType, [0] SignedData
    signed_data = next(_items(content_info[1][1]))
    fields = list(_items(signed_data[1]))  # version, digestAlgorithms, encapContentInfo, ...
    encapsulated = list(_items(fields[2][1]))  # eContentType, [0] OCTET STRING
    octets = next(_items(encapsulated[1][1]))[1]
    return status, next(_items(octets))[1]


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(tag, content) of consecutive DER values. Raises IndexError or ValueError when they do not fit."""
    at = 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            n = size & 0x7F
            if not 1 <= n <= 4:
                raise ValueError("length")
            size, at = int.from_bytes(data[at : at + n]), at + n
        if at + size > len(data):
            raise ValueError("length")
        yield tag, data[at : at + size]
        at += size


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(length)]) + length + content
