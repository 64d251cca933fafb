"""All roles of a run in one process: terms from options, keys drawn here, samples in memory."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedvalue.crypto import keys
from fedvalue.crypto.ids import PackedIds
from fedvalue.errors import InputError
from fedvalue.federated.options import Mirror, Paper, ProtocolOptions, Vpsic, name_of, options_of
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
    """One party's codes, as `fedvalue.tables` makes them: a `PartyTable`, or a plain `CodedColumn`."""

    @property
    def name(self) -> str:
        """The party."""

    @property
    def codes(self) -> Codes:
        """One code per sample."""

    @property
    def n_codes(self) -> int:
        """Size of the code range."""

    @property
    def codebook(self) -> Codebook | None:
        """The features behind the codes; None where the code is the only feature."""


@dataclass(frozen=True, slots=True)
class CodedTables:
    """The coded tables of all parties: Y, the data parties and X_t, if any."""

    label: CodeColumn
    parties: Sequence[CodeColumn]
    task: CodeColumn | None = None

    @property
    def task_column(self) -> CodedColumn:
        """X_t as a column; one code for all samples where the task party has no features."""
        if self.task is None:
            return CodedColumn(TASK, np.zeros(len(self.label.codes), dtype=np.int64), 1)
        return CodedColumn(TASK, self.task.codes, max(1, self.task.n_codes), self.task.codebook)


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
        **_option_terms(options),
    )


def _option_terms(options: ProtocolOptions) -> dict[str, Any]:
    """The terms that a protocol's options decide: its fields, most under the same name."""
    terms = asdict(options)
    if isinstance(options, Mirror):
        terms["policy"] = Policy(options.policy)
    if isinstance(options, Paper):
        terms |= dict.fromkeys(("h1", "h2", "h3"), terms.pop("harden"))
        terms["n_r"] = Adversarial.parse(options.n_r)
    return terms


def expected_settings(terms: RunTerms, tables: CodedTables) -> Settings:
    """The settings of a run over these tables, as far as they are known before ids are aligned."""
    return terms.with_sizes(
        n_samples=terms.max_samples,
        n_task_codes=tables.task_column.n_codes,
        n_label_codes=tables.label.n_codes,
        n_codes=tuple(party.n_codes for party in tables.parties),
        features=_features(terms, tables),
    )


def _features(terms: RunTerms, tables: CodedTables) -> tuple[tuple[int, ...], ...]:
    if terms.columns is ColumnView.JOINT:
        return ()
    task = tables.task_column
    task_sizes = () if task.codebook is None else feature_sizes(task.codebook, task.n_codes)
    return (task_sizes, *(feature_sizes(party.codebook, party.n_codes) for party in tables.parties))


def _free_name(name: str, taken: Sequence[str]) -> str:
    """A role's name that no data party has: a party may well be called 'compute'."""
    while name in taken:
        name += "'"
    return name


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
        terms: The agreed terms.
        tables: The parties' codes.
        ids: Sample ids, common or by party name.
        valuer: Values the counts at the servers under policy `valuation`.
        secret: All keys derive from it; drawn from the system when None (tests fix it).
        computation: Makes the computation server; tests and the drill pass one that cheats.
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

    def inputs(name: str, *columns: CodeColumn) -> dict[str, Any]:
        coded = [
            CodedColumn(column.name, column.codes, column.n_codes, column.codebook) for column in columns
        ]
        samples = MemorySamples(ids[name] if isinstance(ids, Mapping) else ids, coded)
        return {"samples": samples, "credentials": credentials(name)}

    servers = [computation(terms, credentials=credentials(terms.compute), valuer=valuer)]
    if terms.validate in terms.servers:
        servers.append(validation(terms, credentials=credentials(terms.validate), valuer=valuer))
    if terms.assist in terms.servers:
        servers.append(assistance(terms, credentials=credentials(terms.assist)))
    return Cast(
        task=TaskParty(terms, **inputs(terms.task, tables.task_column, tables.label)),
        parties=tuple(data_party(terms, party.name, **inputs(party.name, party)) for party in tables.parties),
        servers=tuple(servers),
    )
