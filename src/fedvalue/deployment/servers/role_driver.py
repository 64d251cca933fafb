"""From accepted messages to a role and back: what a server does in one run, without I/O of its own.

First every party says that it is ready; then the protocol's role exists and is fed. Deterministic
like the role: the same messages in the same order give the same answers, so that a restart can
replay a journal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fedvalue.agreement.run_settings import check_roster, settings_of
from fedvalue.deployment.shell import messages as shell
from fedvalue.deployment.shell.align_messages import AlignTokens
from fedvalue.deployment.shell.alignment import ServerAlignment
from fedvalue.deployment.shell.endorsement import SealedEndorsement, needed
from fedvalue.errors import FedValueError, RemoteProtocolError
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.error_codes import missing_of, peer_failure, safe_code
from fedvalue.protocol.transitions import State

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest
    from fedvalue.deployment.servers.spool import SpooledChunks
    from fedvalue.protocol.role import Role
    from fedvalue.protocol.settings import Settings

Output = tuple[str, bytes]
"""(recipient, body)"""

_AWAITED = {State.KEYING: "EphemeralKey", State.CONFIRMING: "Confirm", State.AGREEING: "Agree"}


class RoleDriver:
    """Gathers the Readies of all parties, then drives the role.

    Args:
        manifest: What was agreed.
        own: compute or validate.
        chunks: Where the role finds its chunks.
        make_role: Called once everybody is ready.
    """

    def __init__(
        self, manifest: Manifest, own: str, chunks: SpooledChunks, make_role: Callable[[Settings], Role]
    ) -> None:
        self._manifest = manifest
        self._own = own
        self._chunks = chunks
        self._make_role = make_role
        self._role: Role | None = None
        self._alignment = ServerAlignment(manifest, own) if manifest.align == "intersect" else None
        self._readies: dict[str, shell.Ready] = {}
        self._kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._declared: dict[str, int] = {}
        self._endorsed: set[str] = set()

    @property
    def stage(self) -> str:
        """open, keying, uploading, agreeing or done."""
        if self._role is None:
            return "open"
        named = {State.UPLOADING: "uploading", State.AGREEING: "agreeing", State.DONE: "done"}
        return named.get(self._role.state, "keying")

    @property
    def n_declared(self) -> int:
        """How many parties have begun to upload (`mirror`)."""
        return len(self._declared)

    def feed(
        self, sender: str, number: int, body: bytes | memoryview, *, checked: bool = False
    ) -> list[Output]:
        """Handle message `number` of `sender` and return what to send.

        Args:
            sender: Whose message.
            number: Its place among the sender's.
            body: Its bytes.
            checked: Whether its digest was checked in this process (`admission.admit`).

        Raises:
            FedValueError: The run has failed; `fail` gives the notices.
        """
        if shell.is_shell(body):
            message = shell.decode(body)
            if isinstance(message, AlignTokens) and not checked and not message.intact:
                raise RemoteProtocolError(f"damaged tokens from {sender!r}", code="E_DIGEST")
            return self._shell(sender, message)
        envelope = codec.decode(body)
        if isinstance(envelope.message, m.Abort) and self._role is None:
            known = [one.name for one in self._manifest.participants]
            raise peer_failure(sender, envelope.message.code, envelope.message.missing, known)
        if self._role is None:
            raise RemoteProtocolError(f"{sender!r} began before everybody was ready", code="E_STATE")
        self._chunks.arriving(sender, number)
        replies = self._role.receive(envelope, checked=checked)
        self._kinds[sender][type(envelope.message).__name__] += 1
        if isinstance(envelope.message, m.Declaration):
            self._declared[sender] = envelope.message.n_chunks
        return _posted(replies)

    def fail(self, error: FedValueError) -> list[Output]:
        """What to send when the run has failed: a reason to every party, the role's own notices."""
        notice = shell.encode(
            shell.Notice(safe_code(error), str(error)[:2000], type(error).__name__, missing_of(error))
        )
        notices: list[Output] = [(name, notice) for name in self._parties]
        return notices + (_posted(self._role.fail(error)) if self._role is not None else [])

    def missing(self) -> tuple[str, ...]:
        """The participants whose message is awaited now."""
        if self._role is None:
            if self._alignment is not None and not self._alignment.done:
                return self._alignment.missing()
            return tuple(name for name in self._parties if name not in self._readies)
        state = self._role.state
        if state is State.WRAPPING:
            return (self._manifest.task.name,)
        if state in _AWAITED:
            return tuple(name for name in self._parties if not self._kinds[name][_AWAITED[state]])
        if self._declared:
            late = tuple(
                name
                for name in self._parties
                if name not in self._declared or self._kinds[name]["Chunk"] < self._declared[name]
            )
            # Where all is counted, it is the other server's part of the noise that has not come.
            other = self._manifest.validate if self._own == "compute" else self._manifest.compute
            return late or ((other.name,) if self._manifest.epsilon is not None else ())
        # Token uploads have no declared number: who has sent least is behind.
        sent = {name: self._kinds[name].total() for name in self._parties}
        return tuple(name for name in sent if sent[name] < max(sent.values()) or not sent[name])

    def _shell(self, sender: str, message: shell.AnyShell) -> list[Output]:
        aligning = self._alignment is not None and not self._alignment.done
        if aligning and self._alignment is not None and not isinstance(message, shell.Ready):
            return [(who, shell.encode(one)) for who, one in self._alignment.take(sender, message)]
        if isinstance(message, SealedEndorsement):
            return self._endorse(sender, message)
        if not isinstance(message, shell.Ready) or aligning or self._role is not None:
            raise RemoteProtocolError(f"{sender!r} sent a message that is not legal now", code="E_STATE")
        return self._ready(sender, message)

    def _ready(self, sender: str, message: shell.Ready) -> list[Output]:
        participant = self._manifest.participant(sender)
        shell.check_ready(message, self._manifest.run_id, sign_key=participant.sign_key, name=sender)
        if sender in self._readies:
            raise RemoteProtocolError(f"{sender!r} is ready twice", code="E_CONFLICT")
        self._readies[sender] = message
        if len(self._readies) < len(self._parties):
            return []
        check_roster(self._manifest, self._readies)
        self._role = self._make_role(settings_of(self._manifest, self._readies))
        roster = shell.encode(shell.ReadyRoster(tuple(self._readies[name] for name in self._parties)))
        return [(name, roster) for name in self._parties] + _posted(self._role.start())

    def _endorse(self, sender: str, message: SealedEndorsement) -> list[Output]:
        """A data party's word about its column goes to the task party, before the release."""
        legal = self._role is not None and self._own == "compute" and needed(self._manifest)
        if not legal or sender in self._endorsed:
            raise RemoteProtocolError(f"{sender!r} sent a message that is not legal now", code="E_STATE")
        self._endorsed.add(sender)
        return [(self._manifest.task.name, shell.encode(message))]

    @property
    def _parties(self) -> tuple[str, ...]:
        return (self._manifest.task.name, *(party.name for party in self._manifest.data))


def _posted(envelopes: Sequence[m.Envelope]) -> list[Output]:
    return [(envelope.recipient, codec.encode(envelope)) for envelope in envelopes]
