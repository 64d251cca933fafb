"""The result of a valuation: plain data, its JSON form and its tables.

- Nothing is computed about data here. A statistic that was not computed is None and has no JSON key.
- Values are in nats.
- `Valuation` is the JSON document itself: its field names are the keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from fedvalue import documents
from fedvalue.documents import Document
from fedvalue.errors import InputError
from fedvalue.tables.column_report import ColumnCoding
from fedvalue.untrusted_text import printable
from fedvalue.valuation.provenance import Provenance
from fedvalue.valuation.settings import ValuationSettings

SCHEMA = "fedvalue.result/2"

Interval = tuple[float, float]

Z95 = 1.959963984540054
"""Standard errors on each side of a 95% interval."""


class PartyValue(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The values of one data party.

    Args:
        name: The party.
        learnable: Learnable value: what a retrained model would gain, by the estimator that the result names.
        learnable_share: learnable / learnable_total; 0 when that is 0.
        learnable_interval: 95% interval of `learnable`.
        value: Shapley-CMI, the paper's value; in a federated run a data party may get `learnable` alone.
        share: value / total; 0 when the total is 0.
        interval: 95% interval of `value`, where the cells are filled well enough to trust it; with noise,
            where the value on these samples lies without it.
        interval_reason: Why there is no interval of `value`.
        alone: val({d}), what the party brings on its own.
        last: val(all) - val(all without d), what would be lost without it.
        n_codes: Number of distinct joint codes of the party.
        se_sampling: Standard error of the permutation sampling of `value`; 0 when exact.
        se_data: Finite-sample standard error of `value`.
        se_learnable: Sampling error of `learnable`; 0 when exact.
        flags: Facts about the estimate, as short stable names (`statistics.guard`).
    """

    name: str
    learnable: float | None = None
    learnable_share: float | None = None
    learnable_interval: Interval | None = None
    value: float | None = None
    share: float | None = None
    interval: Interval | None = None
    interval_reason: str | None = None
    alone: float | None = None
    last: float | None = None
    n_codes: int | None = None
    se_sampling: float | None = None
    se_data: float | None = None
    se_learnable: float | None = None
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.value is None and self.learnable is None:
            raise InputError(f"party {self.name!r} has neither a learnable value nor a Shapley-CMI")

    @property
    def leading(self) -> float:
        """The number that leads: the learnable value where there is one, else Shapley-CMI."""
        leading = self.value if self.learnable is None else self.learnable
        assert leading is not None
        return leading

    @property
    def half_width(self) -> float | None:
        """Half of the 95% interval of `value`."""
        return None if self.interval is None else (self.interval[1] - self.interval[0]) / 2


def interval_of(value: float, error: float) -> Interval:
    """95% interval of a value from its standard error."""
    return value - Z95 * error, value + Z95 * error


class UpliftRow(Document, frozen=True, kw_only=True, omit_defaults=True):
    """How well the label is predicted with one set of parties beside the task party, out of sample.

    Args:
        parties: The data parties in the set.
        role: "nobody", "alone", "all", "all_but", or "set" for another set of up to six parties.
        log_loss: Mean of -ln p(true label), in nats.
        accuracy: Part of the rows whose most likely label is the true one.
        auc: Area under the ROC curve; the mean over labels, one against the rest, with more than two.
        ks: Kolmogorov-Smirnov distance between the scores of the two labels; None with more than two.
        errors_avoided_per_1000: Wrong decisions per 1,000 rows that "nobody" makes and this set does not.
        log_loss_gain_interval: 95% interval of the log loss of "nobody" minus this one.
        auc_gain_interval: 95% interval of this AUC minus that of "nobody".
        ks_gain_interval: The same of KS.
        errors_avoided_interval: 95% interval of `errors_avoided_per_1000`.
    """

    parties: tuple[str, ...]
    role: str
    log_loss: float
    accuracy: float
    auc: float | None = None
    ks: float | None = None
    errors_avoided_per_1000: float | None = None
    log_loss_gain_interval: Interval | None = None
    auc_gain_interval: Interval | None = None
    ks_gain_interval: Interval | None = None
    errors_avoided_interval: Interval | None = None


class JoiningStep(Document, frozen=True, kw_only=True):
    """One more party in an order of joining.

    Args:
        party: The party.
        learnable: Learnable value of all parties up to this one.
    """

    party: str
    learnable: float


class PrivacyStatement(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What noise on the tables promises. None of the fields may be quoted without the others.

    Args:
        epsilon: Every set of results is at most exp(epsilon) times as likely with one table as with another
            that differs from it as `adjacency` says.
        delta: The exception to that: a probability.
        adjacency: How the two tables differ.
        observer: Against whom the promise holds.
        label_noise: Standard deviation of the noise in every count of a code with a label, in persons.
        pair_noise: The same for counts of two columns' codes.
    """

    epsilon: float
    delta: float
    adjacency: str
    observer: str
    label_noise: float
    pair_noise: float


class Valuation(Document, frozen=True, kw_only=True, omit_defaults=True, tag_field="schema", tag=SCHEMA):
    """The values of all data parties, and how they were computed.

    `parties` holds everything known about each party; `learnable` and `values` are the short forms.

    Args:
        n_samples: Rows that were valued.
        method: "exact" or "sampled", of Shapley-CMI.
        n_permutations: Permutations of the sampled method; None when exact.
        seed: Of the sampled permutations; None when exact.
        bins: Bins of a numeric column.
        method_reason: Why this method.
        settings: What the valuation was asked to do.
        estimator: Name and version of the estimator of `learnable`.
        learnable_total: Learnable value of all parties together.
        learnable_total_interval: Its 95% interval.
        total: Shapley-CMI of all parties together, I(X_all; Y | X_task); None where it was not released.
        label_entropy: H(Y | X_task).
        task_value: I(X_task; Y), what the task party's own columns say about the label; 0 without them. With
            `total` it adds up to I(X_task, X_all; Y).
        parties: One entry per data party.
        interactions: Pairwise Shapley interactions of the learnable game, in the order of `parties`:
            below 0 redundant, above 0 synergistic.
        coalitions: Games by bit mask (party k is bit k): "learnable" and "value".
        joining: Of more parties than `coalitions` can hold: an order of joining in which the party that is
            missed least comes last.
        uplift: Prediction quality for nobody, each party alone, all, and all but one; with few parties and
            where all coalitions are kept, for every set of parties.
        columns: How each column was coded.
        warnings: What a person should know about label and columns, one sentence each.
        protocol: The protocol that counted; None for a plain valuation.
        run_id: Of a federated run, in hex.
        privacy: What noise promises, where the run agreed on an epsilon.
        provenance: Which files, columns and software it comes from, and what was asked.
        details: Further facts about the computation.
    """

    unit: str = msgspec.field(default_factory=lambda: "nats")
    n_samples: int
    method: str
    n_permutations: int | None = msgspec.field(default_factory=lambda: None)  # in the file even when null
    seed: int | None = msgspec.field(default_factory=lambda: None)
    bins: int | None = None
    method_reason: str = ""
    settings: ValuationSettings | None = None
    estimator: str | None = None
    learnable_total: float | None = None
    learnable_total_interval: Interval | None = None
    total: float | None = None
    label_entropy: float | None = None
    task_value: float | None = None
    parties: tuple[PartyValue, ...]
    interactions: tuple[tuple[float, ...], ...] | None = None
    coalitions: dict[str, tuple[float, ...]] | None = None
    joining: tuple[JoiningStep, ...] | None = None
    uplift: tuple[UpliftRow, ...] | None = None
    columns: tuple[ColumnCoding, ...] = ()
    warnings: tuple[str, ...] = ()
    protocol: str | None = None
    run_id: str | None = None
    privacy: PrivacyStatement | None = None
    provenance: Provenance | None = None
    details: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [party.name for party in self.parties]
        if len(set(names)) != len(names):
            raise InputError("two parties have the same name")
        p = len(names)
        if self.interactions is not None and any(
            len(row) != p for row in (self.interactions, *self.interactions)
        ):
            raise InputError(f"interactions must be a matrix of {p} rows and columns")

    @property
    def utility_name(self) -> str | None:
        """Name of the own utility whose Shapley values lead; None for learnable values.

        Such values (see `fedvalue.value`) have the utility's unit, and nothing is known about their error.
        """
        kind, _, name = (self.estimator or "").partition("/")
        return name if kind == "utility" else None

    @property
    def values(self) -> dict[str, float]:
        """Shapley-CMI by party, where it is known."""
        return {party.name: party.value for party in self.parties if party.value is not None}

    @property
    def learnable(self) -> dict[str, float | None]:
        """Learnable value by party."""
        return {party.name: party.learnable for party in self.parties}

    def __getitem__(self, name: str) -> PartyValue:
        """The party of that name."""
        for party in self.parties:
            if party.name == name:
                return party
        raise KeyError(name)

    def coalition(self, *names: str, by: str = "learnable") -> float:
        """Value of a set of parties, by their names: `v.coalition("telco", "shop")`.

        Args:
            *names: The parties; none for the empty coalition.
            by: "learnable", or "value" for Shapley-CMI.

        Raises:
            InputError: Not a party of this result, or a result without coalition values.
        """
        game = (self.coalitions or {}).get(by)
        if game is None:
            raise InputError(f"this result holds no coalition values by {by!r}")
        place = {party.name: k for k, party in enumerate(self.parties)}
        mask = 0
        for name in names:
            if not isinstance(name, str):
                raise InputError(f'name the parties one by one, as in v.coalition("a", "b"), got {name!r}')
            if name not in place:
                raise InputError(f"no party {name!r} in this result; its parties are {', '.join(place)}")
            mask |= 1 << place[name]
        return game[mask]

    def uplift_of(self, names: Iterable[str]) -> UpliftRow | None:
        """Prediction quality with these parties beside the task party, where the result has it."""
        wanted = set(names)
        return next((row for row in self.uplift or () if set(row.parties) == wanted), None)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready data; what was not computed has no key."""
        data: dict[str, Any] = documents.parse(self.to_json())
        return data

    def to_json(self, path: str | Path | None = None) -> str:
        """The result as JSON text, also written to `path` when one is given.

        Raises:
            InputError: The file cannot be written.
        """
        text = documents.encode(self).decode()
        if path is not None:
            try:
                Path(path).write_text(text, encoding="utf-8")
            except OSError as error:
                raise InputError(f"cannot write {path}: {error.strerror}") from error
        return text

    @classmethod
    def from_dict(cls, data: Any) -> Valuation:
        """The inverse of `to_dict`.

        Raises:
            InputError: Another schema, or a field that is missing or of the wrong kind.
        """
        return documents.convert(cls, data, schema=SCHEMA)

    @classmethod
    def from_json(cls, path: str | Path) -> Valuation:
        """Read a result file.

        Raises:
            InputError: The file cannot be read or does not hold a result.
        """
        return documents.read(cls, path, schema=SCHEMA)

    def to_rows(self) -> list[dict[str, Any]]:
        """One flat dict per party: intervals as two numbers, flags as text; no keys without values."""
        rows = []
        for party in self.parties:
            row: dict[str, Any] = {}
            for key, item in msgspec.structs.asdict(party).items():
                if key.endswith("interval"):
                    row[f"{key[:-8]}low"], row[f"{key[:-8]}high"] = item or (None, None)
                else:
                    row[key] = ", ".join(item) if key == "flags" else item
            rows.append(row)
        known = [key for key in rows[0] if any(row[key] is not None for row in rows)] if rows else []
        return [{key: row[key] for key in known} for row in rows]

    def to_frame(self) -> Any:
        """One row per party: a pandas DataFrame indexed by name; else a Polars one; else an Arrow table."""
        rows = self.to_rows()
        try:
            import pandas as pd
        except ImportError:
            pass
        else:
            return pd.DataFrame(rows).set_index("name")
        import pyarrow as pa

        table = pa.Table.from_pylist(rows)
        try:
            import polars as pl
        except ImportError:
            return table
        return pl.from_arrow(table)

    @property
    def plot(self) -> Any:
        """Plots of this result: `v.plot.values(ax=ax)` and others (see `fedvalue.reports.plots`)."""
        from fedvalue.reports import plots

        return plots.Plots(self)

    def to_html(self, path: str | Path) -> Path:
        """Write the report, one self-contained HTML file, and return its path."""
        from fedvalue.reports import html

        return html.write(self, path)

    def to_table(self, path: str | Path) -> Path:
        """Write the values as a spreadsheet, `.xlsx` or `.csv`, and return its path."""
        from fedvalue.reports import workbook

        return workbook.write(self, path)

    def meaningful_share(self, party: PartyValue) -> float | None:
        """The share of a party that is shown to people: learnable if known, otherwise of Shapley-CMI.

        None where the interval of the learnable total reaches 0: parts of a total that may be nothing are
        noise, such as 102% and −1%.
        """
        if party.learnable is None:
            return party.share
        ends = self.learnable_total_interval
        return None if ends is not None and ends[0] <= 0 else party.learnable_share

    def _repr_html_(self) -> str:
        from fedvalue.reports import html

        return html.notebook(self)

    def __repr__(self) -> str:
        worth = "" if self.learnable_total is None else f", learnable_total={self.learnable_total:.4g}"
        return (
            f"Valuation({len(self.parties)} parties, {self.n_samples:,} samples{worth}, "
            f"total={_or_unknown(self.total, '.4g')} nats, {self.method})"
        )

    def __str__(self) -> str:
        names = {party.name: printable(party.name) for party in self.parties}
        wide = max([len(name) for name in names.values()] + [5])
        lines = [f"{'party':{wide}}  learnable   share  Shapley-CMI"]
        for party in sorted(self.parties, key=lambda p: -p.leading):
            learned = "" if party.learnable is None else f"{party.learnable:z.4f}"
            share = self.meaningful_share(party)
            part = "" if share is None else f"{100 * share:z.1f}%"
            lines.append(
                f"{names[party.name]:{wide}}  {learned:>9}  {part:>6}  {_or_unknown(party.value):>11}"
            )
        learned = "" if self.learnable_total is None else f"{self.learnable_total:z.4f}"
        lines.append(
            f"{'total':{wide}}  {learned:>9}  {'':>6}  {_or_unknown(self.total):>11}  nats, "
            f"{self.n_samples:,} samples"
        )
        return "\n".join(lines)


def _or_unknown(value: float | None, form: str = ".4f") -> str:
    return "unknown" if value is None else format(value, form)
