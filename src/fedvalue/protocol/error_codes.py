"""The error codes of failed protocol runs, and how a failure travels between participants.

Codes are never reused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fedvalue import errors
from fedvalue.errors import FedValueError, RemoteProtocolError, TransportError, VerificationError
from fedvalue.untrusted_text import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fedvalue.protocol.messages import Abort

CHECKS: dict[str, str] = {
    "E_AUTH": "a token that not every party sent (H2), or a row that is not what its owners wrote",
    "E_COUNT": "the two servers report different cardinalities for a query",
    "E_CONFIRM": "a party does not hold the same key, or saw different keys",
    "E_CHECK_COLUMN": "a party's check column is not what its weights say (gram)",
    "E_COMMITMENT": "a server opened different sums than it committed to (gram)",
    "E_EQUIVOCATION": "a server showed two participants different things",
    "E_GATE": "a table breaks a limit that protects single persons",
    "E_FLOOR": "a cardinality is below the number of adversarial samples, or not a multiple of q",
    "E_GROUP": "the validation server found incomplete groups of encryption ids",
    "E_MARGINAL": "counts do not add up to a party's own marginals, or coalitions contradict each other",
    "E_MIRROR": "the two servers' results differ: a server or a party broke the protocol",
    "E_NOISE": "a server opened a different noise seed than it committed to, or sent other signs (gram)",
    "E_ONE_HOT": "a party's row does not have exactly one code per feature (gram)",
    "E_OPENING": "parties that open a failed run to an auditor show different keys",
    "E_POPULATION": "the parties do not hold the same sample ids",
    "E_REPLAY": "a result belongs to another run",
    "E_ROUNDS": "two rounds of vpsic give different counts",
    "E_SEAL": "a sealed share or key does not open",
    "E_SETS": "a party's sets depend on more than its own value (H3), or a server misstates their sizes",
    "E_SIGNATURE": "a signature was not made with the pinned key",
    "E_SPLIT": "a party signed different uploads for different servers",
    "E_SUMS": "sums of several servers do not fit together: one of them is wrong (gram)",
    "E_TOTAL": "counts do not add up to the number of samples",
}
"""A check failed although every message was well formed: VerificationError."""

BREACHES: dict[str, str] = {
    "E_CONFLICT": "a second, different message in the place of one already accepted",
    "E_DECLARED": "an upload differs from what was declared or agreed",
    "E_DIGEST": "data does not match its digest; the message is refused and may be sent again",
    "E_MALFORMED": "bytes that are not a message",
    "E_QUERY": "a query that this run does not have",
    "E_RANGE": "a cell or a count of a result is outside its range",
    "E_RUN": "a message for another run or another recipient",
    "E_SENDER": "a message from a participant that may not send it",
    "E_SIZE": "a message larger than the limit",
    "E_STATE": "a message that is not legal now",
    "E_VERSION": "a message or an agreement that needs another version",
}
"""A peer broke the protocol: RemoteProtocolError."""

DECEIT = frozenset(CHECKS) - {"E_CONFIRM", "E_GATE", "E_POPULATION", "E_REPLAY"} | {"E_AUDIT"}
"""Codes after which a server or a party must be suspected. Those left out have an innocent cause too: a wrong
shared key, a table that does not fit, an agreement that is used up."""

_WHY = {
    "E_BUDGET": "its limit on what runs may reveal is used up",
    "E_GATE": "its table breaks a limit that protects single persons",
    "E_INPUT": "its table cannot be used",
    "E_POPULATION": "its rows are not the agreed ones",
}
"""What a party's code says about the party itself; its own words are ignored."""

RECOVERABLE = frozenset({"E_DIGEST"})
"""Refusals that leave the run unchanged: the sender may send the same message again, intact."""


def peer_failure(sender: str, abort: Abort, known: Collection[str], *, is_server: bool) -> FedValueError:
    """The error of a run that a peer has ended.

    Args:
        sender: The peer.
        abort: Its message. A server's reason is reduced to printable characters, a party's is ignored.
        known: The participants of the run; the message's other names are left out.
        is_server: Whether the sender is a server.
    """
    missing = known_names(abort.missing, known)
    if is_server and abort.reason:
        kind = getattr(errors, abort.kind, RemoteProtocolError)
        if not (isinstance(kind, type) and issubclass(kind, FedValueError)):
            kind = RemoteProtocolError
        reason = f"server {sender!r}: {printable(abort.reason)}"
    else:
        kind = VerificationError if abort.code in CHECKS else RemoteProtocolError
        names = f"; missing: {', '.join(missing)}" if missing else ""
        why = f": {_WHY[abort.code]}" if abort.code in _WHY and not is_server else ""
        reason = f"{sender!r} has ended the run{why}{names}"
    if abort.code == "E_DEADLINE" or kind is TransportError:
        return TransportError(reason, code=abort.code, missing=missing)
    return kind(reason, code=abort.code)


def known_names(names: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The participants among a peer's names: its other words belong in no log, terminal or notice."""
    return tuple(dict.fromkeys(name for name in names if name in known))


def missing_of(error: FedValueError) -> tuple[str, ...]:
    """Participants whose absence ended the run."""
    return error.missing if isinstance(error, TransportError) else ()


def safe_code(error: FedValueError) -> str:
    """The error's code, in the form that messages allow."""
    return error.code if re.fullmatch("E_[A-Z_]{1,38}", error.code) else "E_PROTOCOL"
