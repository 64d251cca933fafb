"""Audit logs: each entry holds the hash of the one before, and every head is signed.

Anyone with the writer's public key can check a log. The chain alone does not show a tail that was cut off, or
a second history for another reader. A receipt does: a head, signed with its run and its number, that the
writer gave away earlier and that the log must still contain. Entries after the last receipt that anybody
holds can still be cut off.

Entries hold event names, digests and sizes, never ids, tokens, labels or counts. Pure: lines in, lines
out; the time is passed in, so a log can be rebuilt to the byte from a journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from fedvalue import documents
from fedvalue.documents import Document
from fedvalue.errors import ConfigError, FedValueError, VerificationError
from fedvalue.identity.cards import Identity, verify

GENESIS = "0" * 64
"""`prev` of the first entry."""

_PURPOSE = "audit"


class LogEntry(Document, frozen=True, kw_only=True):
    """One entry of a log.

    Args:
        seq: 0, 1, 2, ...
        prev: Hash of the entry before, hex.
        run_id: The run, hex.
        actor: The participant that writes the log.
        event: What happened, a short stable name, possibly with a peer's name or an error code.
        digest: SHA-256 of the event's subject, hex; empty when there is none.
        time: UTC, to the second.
    """

    seq: int
    prev: str
    run_id: str
    actor: str
    event: str
    digest: str
    time: str

    @property
    def head(self) -> str:
        """The hash of this entry, hex: the head of the log that ends here."""
        return hashlib.sha256(documents.canonical(self)).hexdigest()


class Receipt(Document, frozen=True):
    """A signed head that the writer of a log gave to somebody else."""

    actor: str
    run_id: str
    seq: int
    head: str
    signature: bytes

    def check(self, sign_key: bytes) -> None:
        """Raises VerificationError E_SIGNATURE when the writer did not sign this head of this run."""
        content = _signed_head(self.run_id, self.seq, self.head)
        verify(sign_key, _PURPOSE, content, self.signature, who=self.actor)

    def to_line(self) -> str:
        """The receipt as one line of a file."""
        return documents.canonical(self).decode()

    @classmethod
    def from_line(cls, line: str) -> Receipt:
        """The inverse of `to_line`.

        Raises:
            ConfigError: E_AUDIT: not a receipt.
        """
        try:
            receipt = documents.convert(cls, documents.parse(line))
            _signed_head(receipt.run_id, receipt.seq, receipt.head)
        except (FedValueError, ValueError, OverflowError) as error:
            raise ConfigError(f"not a receipt: {error}", code="E_AUDIT") from None
        return receipt


class LogLine(Document, frozen=True, kw_only=True):
    """An entry and the signature on the head that it makes."""

    entry: LogEntry
    signature: bytes

    @property
    def receipt(self) -> Receipt:
        """The signed head of the log that ends here."""
        entry = self.entry
        return Receipt(entry.actor, entry.run_id, entry.seq, entry.head, self.signature)


class ChainWriter:
    """Makes the lines of one log; the caller stores them."""

    def __init__(self, identity: Identity, run_id: str, *, seq: int = 0, prev: str = GENESIS) -> None:
        self._identity = identity
        self._run_id = run_id
        self._seq = seq
        self._prev = prev
        self.receipt: Receipt | None = None
        """The current head, signed; None while the log is empty."""

    def append(self, event: str, digest: str, time: str) -> str:
        """The next line."""
        entry = LogEntry(
            seq=self._seq, prev=self._prev, run_id=self._run_id, actor=self._identity.card.name, event=event,
            digest=digest, time=time,
        )  # fmt: skip
        signature = self._identity.sign(_PURPOSE, _signed_head(self._run_id, entry.seq, entry.head))
        line = LogLine(entry=entry, signature=signature)
        self.receipt = line.receipt
        self._seq, self._prev = self._seq + 1, self.receipt.head
        return documents.canonical(line).decode()


def read_line(line: str) -> LogLine:
    """One line of a log; only its form is checked.

    Raises:
        ConfigError: E_AUDIT.
    """
    try:
        return documents.convert(LogLine, documents.parse(line))
    except FedValueError as error:
        raise ConfigError(f"not a log entry: {error}", code="E_AUDIT") from None


def read_log(lines: Iterable[str], sign_key: bytes) -> list[LogEntry]:
    """Check a whole log and return its entries.

    1. Every line is well-formed, and numbers count up from 0.
    2. Every entry holds the hash of the entry before.
    3. The same writer signed every head; run and actor do not change.

    The caller still has to compare receipts (`check_receipts`), which show a tail that was cut off.

    Raises:
        VerificationError: E_AUDIT, naming the sequence number where the log breaks.
    """
    entries: list[LogEntry] = []
    prev = GENESIS
    for seq, line in enumerate(lines):
        parsed = _parsed(seq, line)
        entry = parsed.entry
        if entry.seq != seq:
            raise _broken(seq, f"the entry there has number {entry.seq}")
        if entry.prev != prev:
            raise _broken(seq, "it does not continue the entry before")
        if entries and (entry.run_id, entry.actor) != (entries[0].run_id, entries[0].actor):
            raise _broken(seq, "it belongs to another run or actor")
        prev = entry.head
        try:
            parsed.receipt.check(sign_key)
        except (VerificationError, ValueError):
            raise _broken(seq, "its signature is not the writer's") from None
        entries.append(entry)
    return entries


def last_receipt(lines: Sequence[str]) -> Receipt | None:
    """The signed head of our own log, to continue it; None when it is empty."""
    return _parsed(len(lines) - 1, lines[-1]).receipt if lines else None


def check_receipts(entries: Sequence[LogEntry], receipts: Iterable[Receipt], sign_key: bytes) -> int:
    """Check that a log still contains every head that its writer signed for others.

    Receipts that another key signed are skipped (a party keeps those of both servers in one file). A
    receipt of this key for another run or under another name contradicts the log, even an empty log.

    Returns:
        Number of receipts compared.

    Raises:
        VerificationError: E_AUDIT: the writer changed, cut or replaced its history, or none of the
            receipts is its own. E_SIGNATURE: a receipt under its name that it did not sign.
    """
    compared = seen = 0
    for receipt in receipts:
        seen += 1
        try:
            receipt.check(sign_key)
        except VerificationError:
            if entries and receipt.actor == entries[0].actor and receipt.run_id == entries[0].run_id:
                raise  # under this log's name, and not signed by its writer
            continue
        if not entries:
            raise _broken(receipt.seq, "the log is empty, and its writer gave a receipt for this entry")
        if (receipt.actor, receipt.run_id) != (entries[0].actor, entries[0].run_id):
            raise _broken(receipt.seq, "its writer gave a receipt for another run or under another name")
        if not 0 <= receipt.seq < len(entries) or entries[receipt.seq].head != receipt.head:
            raise _broken(receipt.seq, "a receipt that the writer gave away contradicts it")
        compared += 1
    if seen and not compared:
        raise VerificationError("none of the receipts is from this log's writer", code="E_AUDIT")
    return compared


def _parsed(seq: int, line: str) -> LogLine:
    try:
        parsed = read_line(line)
        documents.canonical(parsed)
    except (FedValueError, ValueError):
        raise _broken(seq, "the line is not a log entry") from None
    return parsed


def _signed_head(run_id: str, seq: int, head: str) -> bytes:
    """The signed bytes: the run, the number and the hash, so that a receipt fits one place only."""
    run, digest = bytes.fromhex(run_id), bytes.fromhex(head)
    if len(run) != 32 or len(digest) != 32 or (run_id, head) != (run.hex(), digest.hex()):
        raise ValueError("a run and a head are 64 lower-case hex digits")
    return run + seq.to_bytes(8, "big") + digest


def _broken(seq: int, why: str) -> VerificationError:
    return VerificationError(f"the log is broken at entry {seq}: {why}", code="E_AUDIT")
