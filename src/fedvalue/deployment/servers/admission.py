"""Which messages a server takes from whom, decided before anything is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.errors import RemoteProtocolError
from fedvalue.identity.tls_certificates import SERVER_ROLES
from fedvalue.protocol import codec
from fedvalue.protocol import messages as m
from fedvalue.protocol.alignment import TOKEN_BYTES
from fedvalue.protocol.gram.gram_layout import CHUNK_ROWS
from fedvalue.protocol.gram.sign_noise import SIGN_BYTES

if TYPE_CHECKING:
    from fedvalue.agreement.manifest import Manifest

FROM_PARTIES = (
    m.EphemeralKey, m.WrappedKeys, m.AlignTokens, m.Ready, m.Confirm, m.Declaration, m.ShareKeys,
    m.CodebookChunk, m.SealedCodebook, m.Chunk, m.QueryKey, m.TokenChunk, m.GramDeclaration, m.GramReveal,
    m.Agree, m.Abort,
)  # fmt: skip
"""What a party may send to a server; everything else is for servers only."""

FROM_SERVERS = (
    m.IntersectionChunk, m.ResultCommit, m.ResultOpening, m.NoiseCommit, m.NoiseSeed, m.NoiseOpening,
    m.GramPledge, m.GramCoin, m.GramSigns, m.GramCheck, m.GramTest, m.Abort,
)  # fmt: skip

SLACK_BYTES = 1 << 20
"""For everything but uploads: keys and sealed keys of 1,024 parties have a third of it."""
SLACK_MESSAGES = 64


def check_allowance(manifest: Manifest, sender: str, *, messages: int, n_bytes: int) -> None:
    """Whether a sender stays within what the manifest lets it store here, in all its messages.

    Args:
        manifest: What was agreed.
        sender: The sender.
        messages: Number of its messages, with the new one.
        n_bytes: Their size.

    Raises:
        RemoteProtocolError: E_SIZE.
    """
    # An envelope adds less than a sixteenth to a chunk of the smallest size.
    upload = manifest.max_bytes + manifest.max_bytes // 16
    if manifest.align == "intersect":
        upload += (TOKEN_BYTES + 1) * manifest.n_samples
    if manifest.participant(sender).role in SERVER_ROLES:
        upload *= 1 + len(manifest.data)  # what the computation server forwards is of all parties
        if manifest.protocol == "gram":
            upload += SIGN_BYTES + SIGN_BYTES // 16
    if manifest.protocol in ("mirror", "gram"):
        # All chunks but the last are at least half full.
        most = 2 * (upload // manifest.chunk_bytes) + SLACK_MESSAGES
        if manifest.protocol == "gram":
            most += manifest.n_samples // CHUNK_ROWS  # a narrow table fills its chunks with rows, not bytes
    else:
        most = upload // 64 + SLACK_MESSAGES  # one key and one set of at least 16 bytes per query
    if n_bytes > upload + SLACK_BYTES or messages > most:
        raise RemoteProtocolError(
            f"{sender!r} has sent more than the {manifest.max_bytes} bytes that the manifest allows",
            code="E_SIZE",
        )


def admit(manifest: Manifest, server: str, sender: str, body: bytes | memoryview) -> m.Envelope:
    """A well-formed, intact message that `sender` may send to `server`. Nobody decodes it again.

    Raises:
        RemoteProtocolError: E_MALFORMED, E_VERSION, E_RUN, E_SENDER, E_SIZE or E_DIGEST. Nothing has
            happened; the sender may send the right message instead.
    """
    envelope = codec.decode(body)
    if envelope.run_id != manifest.run_id or envelope.recipient != server:
        raise RemoteProtocolError("a message for another run or another server", code="E_RUN")
    if envelope.sender != sender:
        raise RemoteProtocolError(f"{sender!r} may not send as {envelope.sender!r}", code="E_SENDER")
    allowed = FROM_SERVERS if manifest.participant(sender).role in SERVER_ROLES else FROM_PARTIES
    message, kind = envelope.message, type(envelope.message).__name__
    if not isinstance(message, allowed):
        raise RemoteProtocolError(f"{sender!r} may not send {kind}", code="E_SENDER")
    _check_declared(manifest, sender, message)
    if isinstance(message, m.BulkMessage) and not message.intact:
        raise RemoteProtocolError(f"damaged {kind} from {sender!r}", code="E_DIGEST")
    return envelope


def _check_declared(manifest: Manifest, sender: str, message: m.AnyMessage) -> None:
    """An upload that cannot fit the manifest is refused at its declaration."""
    if not isinstance(message, m.Declaration):
        return
    if message.rows > manifest.n_samples or message.rows * message.row_bytes > manifest.max_bytes:
        raise RemoteProtocolError(
            f"{sender!r} declares {message.rows} rows of {message.row_bytes} bytes; the manifest allows "
            f"{manifest.n_samples} rows and {manifest.max_bytes} bytes",
            code="E_SIZE",
        )
