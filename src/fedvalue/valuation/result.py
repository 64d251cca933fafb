"""The result of a valuation: plain data, its JSON form and its tables.

- Nothing is computed about data here. A statistic that was not computed is None and has no JSON key.
- Values are in nats.
- `Valuation` is the JSON document itself: its field names are the keys.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedvalue import documents
from fedvalue.documents import Document
from fedvalue.errors import InputError
from fedvalue.tables.column_report import ColumnCoding
from fedvalue.valuation.settings import ValuationSettings

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "fedvalue.result/2"

Interval = tuple[float, float]

Z95 = 1.959963984540054
"""Standard errors on each side of a 95% interval."""


class PartyValue(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What one data party's data is worth.

    Args:
        name: The party.
        learnable: Learnable value: what a retrained model would gain, by the estimator that the result names.
        learnable_share: learnable / learnable_total; 0 when that is 0.
        learnable_interval: 95% interval of `learnable`.
        value: Shapley-CMI, the paper's value.
        share: value / total; 0 when the total is 0.
        interval: 95% interval of `value`, where the cells are filled well enough to trust it; with noise,
            where the value on these samples lies without it.
        interval_reason: Why there is no interval of `value`.
        alone: val({d}), what the party brings when it comes alone.
        last: val(all) - val(all without d), what is lost without it.
        n_codes: Number of distinct joint codes of the party.
        se_sampling: Standard error of the permutation sampling of `value`; 0 when exact.
        se_data: Finite-sample standard error of `value`.
        se_learnable: Sampling error of `learnable`; 0 when exact.
        flags: Facts about the estimate, as short stable names (`statistics.guard`).
        noise_scale: Scale of the Laplace noise in `value`, where the run agreed on an epsilon. Then only
            `value` is known: everything else would have to be released without noise.
    """

    name: str
    learnable: float | None = None
    learnable_share: float | None = None
    learnable_interval: Interval | None = None
    value: float
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
    noise_scale: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half of the 95% interval of `value`."""
        return None if self.interval is None else (self.interval[1] - self.interval[0]) / 2


def cmi_interval(value: float, se_sampling: float | None, se_data: float | None) -> Interval | None:
    """95% interval of a Shapley-CMI from both of its errors; None until the finite-sample error is known."""
    if se_data is None:
        return None
    half = Z95 * math.hypot(se_sampling or 0.0, se_data)
    return value - half, value + half


def noise_interval(value: float, scale: float) -> Interval:
    """95% interval of a value under Laplace noise: P(|noise| > scale ln 20) = 1/20."""
    half = math.log(20) * scale
    return value - half, value + half


class UpliftRow(Document, frozen=True, kw_only=True, omit_defaults=True):
    """How well the label is predicted with one set of parties beside the task party, out of sample.

    Args:
        parties: The data parties in the set.
        role: "nobody", "alone", "all" or "all_but".
        log_loss: Mean of -ln p(true label), in nats.
        accuracy: Part of the rows whose most likely label is the true one.
        auc: Area under the ROC curve; the mean over labels, one against the rest, with more than two.
        ks: Kolmogorov-Smirnov distance between the scores of the two labels; None with more than two.
        errors_avoided_per_1000: Wrong decisions per 1,000 rows that "nobody" makes and this set does not.
        log_loss_gain_interval: 95% interval of the log loss of "nobody" minus this one.
        auc_gain_interval: 95% interval of this AUC minus that of "nobody".
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
    errors_avoided_interval: Interval | None = None


class PrivacyStatement(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What noise on the values promises. None of the fields may be quoted without the others.

    Args:
        epsilon: Every set of results is at most exp(epsilon) times as likely with one table as with another
            that differs from it as `adjacency` says.
        delta: The exception to that; 0.
        adjacency: How the two tables differ.
        observer: Against whom the promise holds.
        noise_scale: Scale of the Laplace noise on every value, in nats.
    """

    epsilon: float
    delta: float
    adjacency: str
    observer: str
    noise_scale: float


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
        total: Shapley-CMI of all parties together, I(X_all; Y | X_task).
        label_entropy: H(Y | X_task).
        parties: One entry per data party.
        interactions: Pairwise Shapley interactions of the learnable game, in the order of `parties`:
            below 0 redundant, above 0 synergistic.
        coalitions: Games by bit mask (party k is bit k): "learnable" and "value".
        uplift: Prediction quality for nobody, each party alone, all, and all but one.
        columns: How each column was coded.
        warnings: What a person should know about label and columns, one sentence each.
        protocol: The protocol that counted; None for a plain valuation.
        run_id: Of a federated run, in hex.
        privacy: What noise promises, where the run agreed on an epsilon.
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
    total: float
    label_entropy: float | None = None
    parties: tuple[PartyValue, ...]
    interactions: tuple[tuple[float, ...], ...] | None = None
    coalitions: dict[str, tuple[float, ...]] | None = None
    uplift: tuple[UpliftRow, ...] | None = None
    columns: tuple[ColumnCoding, ...] = ()
    warnings: tuple[str, ...] = ()
    protocol: str | None = None
    run_id: str | None = None
    privacy: PrivacyStatement | None = None
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
        if any((party.noise_scale is None) != (self.privacy is None) for party in self.parties):
            raise InputError("noise on a value and the statement about its privacy belong together")

    @property
    def values(self) -> dict[str, float]:
        """Shapley-CMI by party."""
        return {party.name: party.value for party in self.parties}

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
            if name not in place:
                raise InputError(f"no party {name!r} in this result; its parties are {', '.join(place)}")
            mask |= 1 << place[name]
        return game[mask]

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

    def to_frame(self) -> pd.DataFrame:
        """One row per party, as a pandas DataFrame indexed by party name.

        Raises:
            InputError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas: pip install pandas") from None
        rows = [msgspec.structs.asdict(party) for party in self.parties]
        frame = pd.DataFrame(rows).set_index("name")
        return frame.drop(columns=[c for c in frame.columns if frame[c].isna().all()])

    @property
    def plot(self) -> Any:
        """Plots of this result: `v.plot.values(ax=ax)` and others (see `fedvalue.reports.plots`)."""
        from fedvalue.reports import plots

        return plots.Plots(self)

    def to_html(self, path: str | Path) -> Path:
        """Write the report, one self-contained HTML file, and return its path."""
        from fedvalue.reports import html

        return html.write(self, path)

    def _repr_html_(self) -> str:
        from fedvalue.reports import html

        return html.notebook(self)

    def __repr__(self) -> str:
        worth = "" if self.learnable_total is None else f", learnable_total={self.learnable_total:.4g}"
        return (
            f"Valuation({len(self.parties)} parties, {self.n_samples:,} samples{worth}, "
            f"total={self.total:.4g} nats, {self.method})"
        )

    def __str__(self) -> str:
        wide = max([len(party.name) for party in self.parties] + [5])
        lines = [f"{'party':{wide}}  learnable   share  Shapley-CMI"]
        for party in sorted(self.parties, key=lambda p: -(p.value if p.learnable is None else p.learnable)):
            learned = "" if party.learnable is None else f"{party.learnable:.4f}"
            share = party.share if party.learnable_share is None else party.learnable_share
            part = "" if share is None else f"{100 * share:.1f}%"
            lines.append(f"{party.name:{wide}}  {learned:>9}  {part:>6}  {party.value:11.4f}")
        learned = "" if self.learnable_total is None else f"{self.learnable_total:.4f}"
        lines.append(
            f"{'total':{wide}}  {learned:>9}  {'':>6}  {self.total:11.4f}  nats, {self.n_samples:,} samples"
        )
        return "\n".join(lines)
