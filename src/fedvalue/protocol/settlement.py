"""How two servers of `mirror` agree on their results before anything leaves them.

1. `ResultCommit`, both ways: a salted hash of the server's answer on the grid, once all rows are counted.
2. `ResultOpening`, both ways: the answer and the salt, once both commitments are exchanged. Neither server
   can copy the other's answer, or fit its own to it.
3. Each checks the other's hash, compares the answers (`release_grid`), and compares the roots of the uploads.
   The validation server adopts the computation server's rounding, so both release the same numbers.
4. Both round the data parties' numbers once more, at random, by the two salts (`share_rounding`).

A party that sent the servers different columns gets no answer: both must agree on one. The servers cannot
know whether a server or a party lied; an auditor can (`mirror.blame`), since every party signed both uploads
in one root, and every server its answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

import msgspec

from fedvalue.crypto import keys
from fedvalue.errors import RemoteProtocolError, VerificationError
from fedvalue.protocol import messages as m
from fedvalue.protocol.codec import decode_as
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.outcome import Answer
from fedvalue.protocol.settings import RunTerms
from fedvalue.protocol.share_rounding import ShareRounding

DIFFERENT = (
    "the two servers computed different results, and released none: a server computed wrongly, or a party "
    "sent them different columns. What everybody signed lets an auditor tell which"
)


class Settlement:
    """One server's side."""

    def __init__(self, terms: RunTerms, server: str, credentials: Credentials, n_samples: int) -> None:
        self._terms = terms
        self._server = server
        self._n_samples = n_samples
        self._other = next(name for name in terms.servers if name != server)
        self._credentials = credentials
        self._exact: Answer | None = None
        self._opening: m.ResultOpening | None = None
        self._their_commitment = b""

    def counted(self, exact: Answer, roots: Mapping[str, m.UploadRoot]) -> list[m.AnyMessage]:
        """Our answer is known: commit to it, and open it if the other server has committed too."""
        self._exact = exact
        run_id = self._terms.run_id
        salt = keys.subkey(
            self._credentials.seed, run_id, "settlement", self._terms.digest(), self._server, length=16
        )
        answer = msgspec.msgpack.encode(self._rounded(exact))
        ordered = tuple(roots[party] for party in self._terms.everybody)
        commitment = committed(run_id, self._server, salt, ordered, answer)
        signature = keys.sign(self._credentials.signing_key, "settled", run_id, self._server, commitment)
        self._opening = m.ResultOpening(salt, ordered, answer, signature)
        return [m.ResultCommit(commitment), *self._open()]

    def committed(self, message: m.ResultCommit) -> list[m.AnyMessage]:
        """The other server's commitment; our opening if we have committed too."""
        self._their_commitment = message.commitment
        return self._open()

    def _open(self) -> list[m.AnyMessage]:
        return [self._opening] if self._opening is not None and self._their_commitment else []

    def settled(self, message: m.ResultOpening) -> Answer:
        """The answer that both servers release.

        Raises:
            RemoteProtocolError: It is not an answer (E_MALFORMED), or came before its commitment (E_STATE).
            VerificationError: Not what the other server committed to (E_EQUIVOCATION) or signed
                (E_SIGNATURE); a party signed two uploads (E_SPLIT); the numbers differ from ours (E_MIRROR).
        """
        if self._exact is None or self._opening is None or not self._their_commitment:
            raise RemoteProtocolError("a result was opened before it was committed to", code="E_STATE")
        terms, other = self._terms, self._other
        commitment = committed(terms.run_id, other, message.salt, message.roots, message.answer)
        if not hmac.compare_digest(commitment, self._their_commitment):
            raise VerificationError(
                f"{other!r} opened a different result than it committed to", code="E_EQUIVOCATION"
            )
        pin = self._credentials.pins[other]
        keys.check_signature(pin, message.signature, "settled", terms.run_id, other, commitment)
        self._compare_roots(self._opening.roots, message.roots)
        theirs = decode_answer(message.answer)
        if not terms.release_grid.accepts(msgspec.to_builtins(theirs), msgspec.to_builtins(self._exact)):
            raise VerificationError(DIFFERENT, code="E_MIRROR")
        if other == terms.compute:
            return self._for_parties(theirs, message.salt, self._opening.salt)
        return self._for_parties(self._rounded(self._exact), self._opening.salt, message.salt)

    def _for_parties(self, settled: Answer, *salts: bytes) -> Answer:
        """The settled answer with the data parties' numbers rounded by both servers' salts."""
        step = self._terms.share_step(self._n_samples)
        if step is None:
            return settled
        rounding = ShareRounding(step, keys.digest(self._terms.run_id, *salts))
        return Answer(
            rounding.rounded(settled.public), settled.task, tuple(map(rounding.rounded, settled.shares))
        )

    def _compare_roots(self, own: tuple[m.UploadRoot, ...], other: tuple[m.UploadRoot, ...]) -> None:
        if len(other) != len(own):
            raise RemoteProtocolError("expected one root per party", code="E_DECLARED")
        for party, mine, theirs in zip(self._terms.everybody, own, other, strict=True):
            if mine.digests == theirs.digests:
                continue
            # A server could invent a root; a party's signature on it cannot be invented.
            check_root(self._terms, party, theirs, self._credentials.pins[party])
            raise VerificationError(
                f"party {party!r} signed different uploads at the two servers; nothing was released",
                code="E_SPLIT",
            )

    def _rounded(self, answer: Answer) -> Answer:
        grid = self._terms.release_grid
        return Answer(
            grid.rounded(answer.public), grid.rounded(answer.task), tuple(map(grid.rounded, answer.shares))
        )


def committed(
    run_id: bytes, server: str, salt: bytes, roots: tuple[m.UploadRoot, ...], answer: bytes
) -> bytes:
    """The commitment of a server, which it signs when it opens it.

    It covers the parties' signatures: nobody who forwards an opening can spoil one and blame the server.
    """
    root_parts = [part for root in roots for part in (*root.digests, root.signature)]
    return keys.digest(b"settlement", run_id, server.encode(), salt, *root_parts, answer)


def signed_root(terms: RunTerms, party: str, digests: tuple[bytes, ...], signing_key: bytes) -> m.UploadRoot:
    """A party's root of the uploads that it declares to the servers, in their order."""
    return m.UploadRoot(digests, keys.sign(signing_key, "uploads", terms.run_id, party, *digests))


def check_root(terms: RunTerms, party: str, root: m.UploadRoot, pin: bytes) -> None:
    """Raise VerificationError (E_SIGNATURE) unless the party signed this root."""
    keys.check_signature(pin, root.signature, "uploads", terms.run_id, party, *root.digests)


def decode_answer(data: bytes) -> Answer:
    """The answer in a `ResultOpening`.

    Raises:
        RemoteProtocolError: Not an answer (E_MALFORMED).
    """
    return decode_as(_decoder, data, what="a result")


_decoder = msgspec.msgpack.Decoder(Answer)
