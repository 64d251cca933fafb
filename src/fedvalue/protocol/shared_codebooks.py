"""Codebooks among parties that hold the joint counts themselves.

Under `single` and `paper` every party learns all counts; under `mirror` with policy `counts` the task party
does. To see columns one by one they also need the codebooks behind the joint codes. Each party seals its own
for the parties that hold the counts; the computation server relays it and cannot read it. Feature codes are
renamed by a secret permutation of their owner: the others learn which samples share a code, and not what the
code means.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError
from fedvalue.information.contingency import Codebook, JointCounts
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Keyring
from fedvalue.protocol.samples import feature_codes, feature_sizes, opaque_codebook
from fedvalue.protocol.settings import (
    MAX_CODEBOOK_CELLS,
    ColumnView,
    Policy,
    ProtocolName,
    RunTerms,
    Settings,
)

_SEAL = keys.info("codebook")
_OTHERS = "parties"
"""In place of a server's name where codes are renamed for the other parties."""


def shares_codebooks(terms: RunTerms) -> bool:
    """Whether parties hold the counts and need each other's codebooks."""
    if terms.protocol is ProtocolName.GRAM:
        return False
    counts = terms.protocol is not ProtocolName.MIRROR or terms.policy is Policy.COUNTS
    return counts and terms.columns is ColumnView.FEATURES


def recipients(terms: RunTerms, party: str) -> tuple[str, ...]:
    """The parties that get a party's codebook."""
    if terms.protocol is ProtocolName.MIRROR:
        return (terms.task,) if party != terms.task else ()
    return tuple(name for name in terms.everybody if name != party)


def sealed_bytes(settings: Settings, party: str) -> int:
    """Bytes of a party's codebook before it is sealed.

    Under `mirror` all have the length of the largest: the server that relays them must not learn how many
    codes a party's columns have.
    """
    if not recipients(settings, party):
        return 0
    same = settings.parties if settings.protocol is ProtocolName.MIRROR else (party,)
    return 4 * max(_n_codes(settings, name) * len(_sizes(settings, name)) for name in same)


def n_parts(settings: Settings, party: str) -> int:
    """Number of messages that carry a party's codebook."""
    return -(-sealed_bytes(settings, party) // settings.chunk_bytes)


class SharedCodebooks:
    """One party's side: sends its codebook, and collects the others'.

    `book` holds the features behind the party's joint code (those of X_t for the task party).
    """

    def __init__(self, settings: Settings, name: str, ring: Keyring, book: Codebook | None) -> None:
        self._settings = settings
        self._name = name
        self._ring = ring
        self._to = m.Sender(settings.run_id, name).to
        self._own = self._renamed(book)
        self._opened: dict[str, list[bytes]] = {
            peer: [] for peer in settings.everybody if name in recipients(settings, peer)
        }

    def _renamed(self, book: Codebook | None) -> NDArray[np.uint32]:
        n_codes, n_features = _n_codes(self._settings, self._name), len(_sizes(self._settings, self._name))
        renamed = np.empty((n_codes, n_features), dtype="<u4")
        sizes, codes = feature_sizes(book, n_codes), feature_codes(book, n_codes)
        for k in range(n_features):
            renamed[:, k] = self._ring.feature_map(_OTHERS, self._name, k, sizes[k])[codes[:, k]]
        return renamed

    def begin(self) -> list[m.Envelope]:
        """Our codebook, for the computation server to relay."""
        size = sealed_bytes(self._settings, self._name)
        data = self._own.tobytes().ljust(size, b"\0")[:size]  # size 0: nobody gets it
        out = []
        for index, total, part in m.cut(data, self._settings.chunk_bytes):
            sealed = keys.seal(self._key(self._name, index), part, _SEAL)
            message = m.SealedCodebook(index, total, b"", self._name, sealed)
            out.append(self._to(self._settings.compute, message.with_digest()))
        return out

    def _key(self, party: str, index: int) -> bytes:
        if self._settings.protocol is not ProtocolName.MIRROR:
            return self._ring.common_codebook(party, index)
        # Under mirror the task party alone reads it.
        return self._ring.task_codebook(party if party != self._name else self._settings.task, index)

    def take(self, message: m.SealedCodebook) -> None:
        """Part of another party's codebook.

        Raises:
            RemoteProtocolError: Not for us, or out of order (E_DECLARED).
            VerificationError: It does not open (E_SEAL).
        """
        party = message.party
        parts, expected = self._opened.get(party, []), 0
        if party in self._opened:
            expected = n_parts(self._settings, party)
        if message.total != expected or message.index != len(parts) or message.index >= expected:
            raise RemoteProtocolError("part of a codebook out of order", code="E_DECLARED")
        key, what = self._key(party, message.index), f"the codebook of {party!r}"
        parts.append(keys.unseal(key, message.data, _SEAL, what=what))

    def completed(self, counts: JointCounts) -> JointCounts:
        """The joint counts with the codebooks of all parties.

        Raises:
            RemoteProtocolError: One is missing (E_DECLARED), or has a code out of range (E_RANGE).
        """
        task, *parties = (self._book(party) for party in self._settings.everybody)
        books = tuple(book for book in parties if book is not None)
        return replace(counts, codebooks=books, task_codebook=task)

    def _book(self, party: str) -> Codebook | None:
        n_codes, sizes = _n_codes(self._settings, party), _sizes(self._settings, party)
        if not sizes:
            return None
        if party == self._name:
            return opaque_codebook(self._own.astype(np.int64))
        whole, n_bytes = b"".join(self._opened[party]), 4 * n_codes * len(sizes)
        data, padding = whole[:n_bytes], whole[n_bytes:]
        if len(whole) != sealed_bytes(self._settings, party) or padding.strip(b"\0"):
            raise RemoteProtocolError(f"the codebook of {party!r} is incomplete", code="E_DECLARED")
        codes = np.frombuffer(data, dtype="<u4").astype(np.int64).reshape(n_codes, len(sizes))
        if (codes >= np.array(sizes)).any():
            raise RemoteProtocolError(f"a code in the codebook of {party!r} is out of range", code="E_RANGE")
        return opaque_codebook(codes)


class CodebookRelay:
    """The computation server's side: relays codebooks, up to the largest that a run may have.

    The parties check that each has the declared number of codes.
    """

    def __init__(self, terms: RunTerms) -> None:
        self._terms = terms
        self._to = m.Sender(terms.run_id, terms.compute).to
        self._n_relayed = dict.fromkeys(terms.everybody, 0)
        self._most = -(-4 * MAX_CODEBOOK_CELLS // terms.chunk_bytes)

    def take(self, sender: str, message: m.SealedCodebook) -> list[m.Envelope]:
        """Relay part of a party's codebook to the parties that hold the counts.

        Raises:
            RemoteProtocolError: In another party's name (E_SENDER), out of order (E_DECLARED) or too large
                (E_SIZE).
        """
        if message.party != sender:
            raise RemoteProtocolError(
                f"{sender!r} sent a message in the name of {message.party!r}", code="E_SENDER"
            )
        in_order = message.index == self._n_relayed[sender] < message.total <= self._most
        if not in_order or not recipients(self._terms, sender):
            raise RemoteProtocolError(f"{sender!r} sent part of a codebook out of order", code="E_DECLARED")
        if len(message.data) > self._terms.chunk_bytes + 16:
            raise RemoteProtocolError(f"{sender!r} sent too large a part of a codebook", code="E_SIZE")
        self._n_relayed[sender] += 1
        return [self._to(name, message) for name in recipients(self._terms, sender)]


def _n_codes(settings: Settings, party: str) -> int:
    if party == settings.task:
        return settings.n_task_codes
    return settings.n_codes[settings.parties.index(party)]


def _sizes(settings: Settings, party: str) -> tuple[int, ...]:
    return settings.features[settings.everybody.index(party)]
