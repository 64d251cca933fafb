"""A small world for protocol tests: tables, casts with fixed keys, and a postman who can be trusted or not.

The postman keeps the order of envelopes between two roles and nothing else: which pair is served
next is drawn from a seed. He can lose nothing for ever (that is the transport's business), but he
may deliver twice, and a test may let him open envelopes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedvalue.crypto.ids import PackedIds, canonical_ids
from fedvalue.errors import FedValueError
from fedvalue.federated.cast import Cast, CodedTables, expected_settings, make_cast, make_terms
from fedvalue.federated.options import make_options
from fedvalue.federated.valuers import make_valuer
from fedvalue.information.contingency import Codebook, JointCounts
from fedvalue.protocol import codec
from fedvalue.protocol.messages import Envelope
from fedvalue.protocol.party_roles import DataParty
from fedvalue.protocol.role import Role
from fedvalue.protocol.settings import ColumnView, Gates, Settings
from fedvalue.protocol.transitions import State
from fedvalue.valuation.settings import ValuationSettings

Meddler = Callable[[Envelope], Iterable[Envelope]]
SECRET = bytes(range(32))
RUN_ID = bytes(range(100, 132))


@dataclass(frozen=True)
class Codes:
    """One party's codes."""

    name: str
    codes: np.ndarray
    n_codes: int
    codebook: Codebook | None = None

    def with_features(self) -> Codes:
        """Two features behind the code: whether it is odd, and half of it."""
        codes = np.arange(self.n_codes)
        book = Codebook((f"{self.name} odd", f"{self.name} half"), np.column_stack([codes % 2, codes // 2]))
        return Codes(self.name, self.codes, self.n_codes, book)


@dataclass(frozen=True)
class World:
    """Aligned columns of all parties."""

    label: Codes
    task: Codes | None
    parties: tuple[Codes, ...]
    ids: PackedIds

    @classmethod
    def drawn(
        cls, seed: int = 0, n: int = 40, sizes: tuple[int, ...] = (2, 3), n_task: int = 2, n_label: int = 2
    ) -> World:
        rng = np.random.default_rng(seed)
        y = rng.integers(0, n_label, n)
        parties = tuple(
            Codes(f"p{k}", (y * (k + 1) + rng.integers(0, m, n)) % m, m) for k, m in enumerate(sizes)
        )
        task = Codes("t", rng.integers(0, n_task, n), n_task) if n_task > 1 else None
        ids = canonical_ids([f"person-{k}" for k in range(n)])
        return cls(Codes("y", y, n_label), task, parties, ids)

    def with_features(self) -> World:
        """The same world where every party but the label has two features."""
        task = None if self.task is None else self.task.with_features()
        return World(self.label, task, tuple(party.with_features() for party in self.parties), self.ids)

    def counts(self) -> JointCounts:
        """The joint table as plain computation has it."""
        books = [party.codebook for party in self.parties if party.codebook is not None]
        return JointCounts.from_columns(
            label=self.label.codes,
            task=None if self.task is None else self.task.codes,
            parties={party.name: party.codes for party in self.parties},
            n_codes=[party.n_codes for party in self.parties],
            codebooks=books or None,
            task_codebook=None if self.task is None else self.task.codebook,
        )

    def settings(self, protocol: str = "mirror", **options: Any) -> Settings:
        """The settings of a run over this world."""
        tables = CodedTables(self.label, self.parties, self.task)
        return expected_settings(make_terms(tables, make_options(protocol, **options), run_id=RUN_ID), tables)

    def cast(
        self,
        protocol: str = "mirror",
        *,
        ids: Any = None,
        run_id: bytes | None = RUN_ID,
        secret: bytes | None = SECRET,
        engine: ValuationSettings | None = None,
        servers: dict[str, Any] | None = None,
        align: str = "equal",
        columns: str = "joint",
        data_party: Any = DataParty,
        gates: Gates | None = None,
        **options: Any,
    ) -> Cast:
        """All roles of a run over this world."""
        tables, chosen = CodedTables(self.label, self.parties, self.task), make_options(protocol, **options)
        return make_cast(
            make_terms(tables, chosen, align=align, columns=ColumnView(columns), run_id=run_id, gates=gates),
            tables,
            ids=self.ids if ids is None else ids,
            valuer=make_valuer(engine or ValuationSettings(method="exact", statistics=False)),
            secret=secret,
            data_party=data_party,
            **(servers or {}),
        )


@dataclass
class Postman:
    """Carries envelopes between roles, in an order drawn from `seed`."""

    roles: Iterable[Role]
    seed: int = 0
    meddler: Meddler | None = None
    twice: float = 0.0
    log: list[bytes] = field(default_factory=list)
    errors: dict[str, FedValueError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._by_name = {role.name: role for role in self.roles}
        self._channels: dict[tuple[str, str], deque[Envelope]] = {}

    def run(self) -> None:
        """Deliver until nothing is left. Failures are kept in `errors` and told to the peers."""
        for role in self._by_name.values():
            self._post(role.start())
        while ready := sorted(key for key, channel in self._channels.items() if channel):
            key = ready[self._rng.integers(len(ready))]
            envelope = self._channels[key].popleft()
            self._deliver(envelope)
            if self._rng.random() < self.twice:
                self._deliver(envelope)

    def _post(self, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            for item in [envelope] if self.meddler is None else self.meddler(envelope):
                self._channels.setdefault((item.sender, item.recipient), deque()).append(item)

    def _deliver(self, envelope: Envelope) -> None:
        role = self._by_name.get(envelope.recipient)
        if role is None or role.state is State.FAILED:
            return
        data = codec.encode(envelope)
        self.log.append(data)
        try:
            self._post(role.receive(codec.decode(data)))
        except FedValueError as error:
            self.errors.setdefault(role.name, error)
            self._post(role.fail(error))

    def states(self) -> set[State]:
        """The states of all roles."""
        return {role.state for role in self._by_name.values()}

    def codes(self) -> set[str]:
        """The codes of all failures."""
        return {error.code for error in self.errors.values()}


def run(cast: Cast, **options: Any) -> Postman:
    """Drive a cast to its end."""
    postman = Postman(cast.everyone(), **options)
    postman.run()
    return postman


def cells(counts: JointCounts) -> dict[tuple[int, ...], int]:
    """A joint table as a dictionary."""
    rows = np.column_stack([counts.task, counts.label, counts.parties]).tolist()
    return {tuple(row): int(n) for row, n in zip(rows, counts.count, strict=True)}


def check_rebuilt_server(make: Callable[[], Cast], name: str) -> None:
    """A server that gets the messages of its journal again sends the same bytes."""
    cast = make()
    role: Any = next(role for role in cast.servers if role.name == name)
    receive, journal = role.receive, []

    def noted(envelope: Envelope) -> list[Envelope]:
        sent = receive(envelope)
        journal.append((envelope, [codec.encode(each) for each in sent]))
        return sent

    role.receive = noted
    Postman(cast.everyone(), seed=5).run()
    rebuilt = next(role for role in make().servers if role.name == name)
    rebuilt.start()
    assert any(sent for _, sent in journal)
    for envelope, sent in journal:
        assert [codec.encode(each) for each in rebuilt.receive(envelope)] == sent
