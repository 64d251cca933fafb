"""All roles of a run in one process: terms from options, keys drawn here, samples in memory."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedvalue.crypto import keys
from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import InputError
from fedvalue.federated.options import (
    Gram,
    Mirror,
    Paper,
    ProtocolOptions,
    Single,
    Vpsic,
    name_of,
    options_of,
)
from fedvalue.protocol.computation_server import ComputationServer
from fedvalue.protocol.keyring import Credentials
from fedvalue.protocol.outcome import Valuer
from fedvalue.protocol.party_roles import DataParty, TaskParty
from fedvalue.protocol.role import Role
from fedvalue.protocol.samples import CodedColumn, MemorySamples, feature_sizes
from fedvalue.protocol.server import AssistingServer
from fedvalue.protocol.settings import (
    ASSIST,
    COMPUTE,
    VALIDATE,
    Adversarial,
    Align,
    ColumnView,
    Gates,
    Policy,
    ProtocolName,
    RunTerms,
    Settings,
)
from fedvalue.protocol.validation_server import ValidationServer

if TYPE_CHECKING:
    from fedvalue.information.contingency import Codebook
    from fedvalue.typing import Codes

TASK = "task party"
"""Name of the task party where its table has none."""


class CodeColumn(Protocol):
    """One party's codes: what `fedvalue.tables` makes of its features."""

    @property
    def name(self) -> str:
        """The party."""

    @property
    def codes(self) -> Codes:
        """One code per sample."""

    @property
    def n_codes(self) -> int:
        """Size of the code range."""


@dataclass(frozen=True, slots=True)
class CodedTables:
    """The coded tables of all parties.

    Args:
        label: Codes of Y.
        parties: Codes of the data parties.
        task: Codes of X_t, or None.
    """

    label: CodeColumn
    parties: Sequence[CodeColumn]
    task: CodeColumn | None = None


@dataclass(frozen=True, slots=True)
class Cast:
    """All roles of one run."""

    task: TaskParty
    parties: tuple[DataParty, ...]
    servers: tuple[Role, ...]

    def everyone(self) -> tuple[Role, ...]:
        """Servers and parties."""
        return (*self.servers, self.task, *self.parties)


def make_terms(
    tables: CodedTables,
    protocol: str | ProtocolOptions = "mirror",
    *,
    align: str = "equal",
    columns: ColumnView = ColumnView.JOINT,
    gates: Gates | None = None,
    run_id: bytes | None = None,
) -> RunTerms:
    """The terms of a run over these tables, under a fresh run id.

    Raises:
        InputError: An unknown protocol or alignment, or an option out of range.
    """
    options = options_of(protocol)
    if isinstance(options, Vpsic):
        raise InputError("protocol 'vpsic' runs in one process only; it has no terms to agree on")
    if align not in tuple(Align):
        raise InputError(f"align must be {' or '.join(Align)}, got {align!r}")
    names = tuple(party.name for party in tables.parties)
    rows = [len(table.codes) for table in (tables.label, *tables.parties)]
    return RunTerms(
        run_id=secrets.token_bytes(32) if run_id is None else run_id,
        protocol=ProtocolName(name_of(options)),
        task=_free_name(TASK, names),
        compute=_free_name(COMPUTE, names),
        validate=_free_name(VALIDATE, names),
        assist=_free_name(ASSIST, names),
        parties=names,
        max_samples=max(rows) if align == Align.INTERSECT else rows[0],
        align=Align(align),
        columns=columns,
        gates=gates,
        **_chosen(options),
    )


def _chosen(options: Single | Paper | Mirror | Gram) -> dict[str, Any]:
    """The terms that a protocol's options decide."""
    if isinstance(options, Mirror):
        return {"policy": Policy(options.policy), "epsilon": options.epsilon, "grid": options.grid}
    if isinstance(options, Gram):
        return {"epsilon": options.epsilon, "exact_tables": options.exact_tables}
    chosen: dict[str, Any] = {
        "by_coalition": options.by_coalition, "max_tokens": options.max_tokens, "pad": options.pad,
    }  # fmt: skip
    if isinstance(options, Paper):
        hardening = dict.fromkeys(("h1", "h2", "h3"), options.harden)
        chosen |= {**hardening, "q": options.q, "n_r": Adversarial.parse(options.n_r)}
    return chosen


def expected_settings(terms: RunTerms, tables: CodedTables) -> Settings:
    """The settings of a run over these tables, as far as they are known before ids are aligned."""
    return terms.with_sizes(
        n_samples=terms.max_samples,
        n_task_codes=1 if tables.task is None else max(1, tables.task.n_codes),
        n_label_codes=tables.label.n_codes,
        n_codes=tuple(party.n_codes for party in tables.parties),
        features=_features(terms, tables),
    )


def _features(terms: RunTerms, tables: CodedTables) -> tuple[tuple[int, ...], ...]:
    if terms.columns is ColumnView.JOINT:
        return ()
    own = codebook_of(tables.task)
    task = () if own is None or tables.task is None else feature_sizes(own, tables.task.n_codes)
    return (task, *(feature_sizes(codebook_of(party), party.n_codes) for party in tables.parties))


def codebook_of(table: CodeColumn | None) -> Codebook | None:
    """The features behind a table's joint code, where it has a codebook."""
    book: Codebook | None = getattr(table, "codebook", None)
    return book if book is not None and book.n_features else None


def _free_name(wanted: str, taken: Sequence[str]) -> str:
    """A role's name that no data party has: a party may well be called 'compute'."""
    while wanted in taken:
        wanted += "'"
    return wanted


def make_cast(
    terms: RunTerms,
    tables: CodedTables,
    *,
    ids: PackedIds | Mapping[str, PackedIds],
    valuer: Valuer,
    secret: bytes | None = None,
    computation: Callable[..., Role] = ComputationServer,
    validation: Callable[..., Role] = ValidationServer,
    data_party: Callable[..., DataParty] = DataParty,
    assistance: Callable[..., Role] = AssistingServer,
) -> Cast:
    """All roles of a run, with fresh keys.

    Args:
        terms: What was agreed.
        tables: The parties' codes.
        ids: Sample ids, common or by party name.
        valuer: What the servers make of the counts under policy `valuation`.
        secret: Where all keys come from; drawn from the system when None (tests fix it).
        computation: Makes the computation server; tests and the drill put one that cheats here.
        validation: Makes the validation server.
        data_party: Makes a data party.
        assistance: Makes the assisting server (`gram`).
    """
    root = secrets.token_bytes(32) if secret is None else secret
    names = (*terms.everybody, terms.compute, terms.validate, terms.assist)
    signing = {name: keys.subkey(root, terms.run_id, "signing", name) for name in names}
    pins = {name: keys.signing_public(key) for name, key in signing.items()}

    def credentials(name: str) -> Credentials:
        return Credentials(keys.subkey(root, terms.run_id, "seed", name), signing[name], pins)

    def samples(name: str, *columns: CodedColumn) -> MemorySamples:
        return MemorySamples(ids[name] if isinstance(ids, Mapping) else ids, columns)

    servers = [computation(terms, credentials=credentials(terms.compute), valuer=valuer)]
    if terms.validate in terms.servers:
        servers.append(validation(terms, credentials=credentials(terms.validate), valuer=valuer))
    if terms.assist in terms.servers:
        servers.append(assistance(terms, credentials=credentials(terms.assist)))
    label = tables.label
    own = CodedColumn(terms.task, np.zeros(len(label.codes), dtype=np.int64), 1)
    if tables.task is not None:
        own = CodedColumn(
            terms.task, tables.task.codes, max(1, tables.task.n_codes), codebook_of(tables.task)
        )
    return Cast(
        task=TaskParty(
            terms,
            samples=samples(terms.task, own, CodedColumn(label.name, label.codes, label.n_codes)),
            credentials=credentials(terms.task),
        ),
        parties=tuple(
            data_party(
                terms,
                party.name,
                samples=samples(
                    party.name, CodedColumn(party.name, party.codes, party.n_codes, codebook_of(party))
                ),
                credentials=credentials(party.name),
            )
            for party in tables.parties
        ),
        servers=tuple(servers),
    )
