"""Finding the liar after two servers' results differed, once the parties open their uploads to an auditor.

Every party has signed the root of both uploads (`UploadRoot`), every server its answer and the roots of the
uploads that it counted (`ResultOpening`). Each party opens its rows and the keys of its run.

1. A server that shows a root which a party did not sign has lied.
2. A party with two signed roots has lied.
3. A party whose opened rows do not give the uploads that it signed has lied: the rows of one table, masked
   once per server, have one root.
4. If all parties are cleared, their rows give the answer: a server that signed a different one has lied.

Keys that two parties open differently clear neither: E_OPENING. The auditor sees everything that is opened,
so a party opens a run only where the agreement asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

import msgspec
import numpy as np

from fedvalue.crypto import keys
from fedvalue.errors import VerificationError
from fedvalue.information.contingency import JointCounts
from fedvalue.protocol import messages as m
from fedvalue.protocol.keyring import Credentials, Keyring
from fedvalue.protocol.mirror.naming import Naming
from fedvalue.protocol.mirror.opaque_cells import collapsed_counts
from fedvalue.protocol.mirror.upload import MirrorWork
from fedvalue.protocol.outcome import Valuer
from fedvalue.protocol.samples import MemorySamples
from fedvalue.protocol.settings import ColumnView, Settings
from fedvalue.protocol.settlement import check_root, committed, decode_answer


@dataclass(frozen=True, slots=True)
class UploadOpening:
    """A party's rows and keys of the run, for an auditor."""

    samples: MemorySamples = field(repr=False)
    ring: Keyring = field(repr=False)


def liars(
    settings: Settings,
    openings: Mapping[str, UploadOpening],
    answers: Mapping[str, m.ResultOpening],
    pins: Mapping[str, bytes],
    valuer: Valuer,
) -> tuple[str, ...]:
    """The participants that provably lied; empty if everybody followed the protocol.

    Args:
        settings: The settings of the run; policy `valuation` without noise.
        openings: By party.
        answers: By server, the opening that it sent to the other.
        pins: Public signing keys of everybody.
        valuer: The function that both servers had to apply.

    Raises:
        VerificationError: A server's answer is not signed by it (E_SIGNATURE), or the parties open
            different keys (E_OPENING).
    """
    _check_keys(settings, openings)
    guilty: list[str] = []
    roots: dict[str, set[tuple[bytes, ...]]] = {party: set() for party in settings.everybody}
    for server, answer in answers.items():
        signed = committed(settings.run_id, server, answer.salt, answer.roots, answer.answer)
        keys.check_signature(pins[server], answer.signature, "settled", settings.run_id, server, signed)
        for party, root in zip(settings.everybody, answer.roots, strict=True):
            try:
                check_root(settings, party, root, pins[party])
            except VerificationError:
                guilty.append(server)
                break
            roots[party].add(tuple(root.digests))
    # Where no signed root of a party was shown, a server is at fault and nothing is proved against the party.
    guilty += [
        party
        for party in settings.everybody
        if not roots[party] <= {remade_root(settings, party, openings[party])}
    ]
    if not guilty:
        exact = msgspec.to_builtins(valuer(_opened_counts(settings, openings), settings))
        guilty = [
            server
            for server, answer in answers.items()
            if not settings.release_grid.accepts(msgspec.to_builtins(decode_answer(answer.answer)), exact)
        ]
    return tuple(dict.fromkeys(guilty))


def remade_root(settings: Settings, party: str, opening: UploadOpening) -> tuple[bytes, ...]:
    """The digests that a party must have signed if it uploaded the opened rows to both servers."""
    # An upload depends on rows and keys alone; the signature on this root is not used.
    work = MirrorWork(
        settings,
        party,
        opening.ring,
        samples=opening.samples,
        hashed=opening.samples.hashed(opening.ring.ids()),
        credentials=Credentials(seed=bytes(32), signing_key=bytes(32), pins={}),
    )
    return work.declared()


def _check_keys(settings: Settings, openings: Mapping[str, UploadOpening]) -> None:
    rings = {party: openings[party].ring for party in settings.everybody}
    common = len({ring.run_key for ring in rings.values()}) == 1
    pairs = all(rings[a].pairs[b] == rings[b].pairs[a] for a, b in combinations(settings.everybody, 2))
    if not (common and pairs):
        raise VerificationError("the parties open different keys", code="E_OPENING")


def _opened_counts(settings: Settings, openings: Mapping[str, UploadOpening]) -> JointCounts:
    """The joint counts of the opened rows, columns in the secret order, as a server has them."""
    task = openings[settings.task]
    naming = Naming(settings, task.ring)
    rows = {}
    for party, opening in openings.items():
        hashed = opening.samples.hashed(task.ring.ids()).whole
        assert hashed is not None
        order = np.lexsort((hashed.hashes[:, 1], hashed.hashes[:, 0]))
        rows[party] = [codes[order] for codes in hashed.codes]
    columns = [*rows[settings.task], *(rows[party][0] for party in naming.order)]
    names = tuple(f"column {k}" for k in range(len(naming.order)))
    one_each = np.ones(len(columns[0]), dtype=np.int64)
    table = collapsed_counts(columns, one_each, names, naming.layout.radices[2:])
    if settings.columns is ColumnView.JOINT:
        return table
    books = [openings[party].samples.codebooks[0] for party in (settings.task, *naming.order)]
    return replace(
        table, task_codebook=books[0], codebooks=tuple(book for book in books[1:] if book is not None)
    )
