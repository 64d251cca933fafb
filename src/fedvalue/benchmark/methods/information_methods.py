"""Methods that estimate information without a model: Shapley-CMI, the learnable values, and rivals."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedvalue.benchmark.methods.method import Estimate, GameMethod, Method, estimate_of_game
from fedvalue.information.cmi import conditional_entropy
from fedvalue.information.contingency import JointCounts, pack
from fedvalue.tables.coding_settings import CodingSettings
from fedvalue.tables.party_table import party_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fedvalue.benchmark.problem import VerticalTable
    from fedvalue.datasets.dataset import Feature
    from fedvalue.tables.coding_settings import Binning
    from fedvalue.typing import Codes, Floats
    from fedvalue.valuation.evidence.feature_table import FeatureTable

BINS = 5
"""The paper's number of bins."""


@dataclass(frozen=True, slots=True, eq=False)
class CodedTable:
    """One code column per feature of the task party and of each data party."""

    label: Codes = field(repr=False)
    task: tuple[Codes, ...] = field(repr=False)
    parties: Mapping[str, tuple[Codes, ...]] = field(repr=False)

    def known_to(self, mask: int) -> list[Codes]:
        """The feature codes of the task party and a coalition."""
        held = [code for k, codes in enumerate(self.parties.values()) if mask >> k & 1 for code in codes]
        return [*self.task, *held]

    def joint_counts(self) -> JointCounts:
        """The paper's view: one joint code per party."""
        return JointCounts.from_columns(
            label=self.label,
            task=pack(list(self.task)) if self.task else None,
            parties={name: pack(list(codes)) for name, codes in self.parties.items()},
        )


def coded(table: VerticalTable, binning: Binning) -> CodedTable:
    """Every feature in five bins of equal width, or of equal content."""
    settings = CodingSettings(bins=BINS, binning=binning)

    def codes(columns: Mapping[str, Feature]) -> tuple[Codes, ...]:
        return tuple(party_table(name, {name: column}, settings).codes for name, column in columns.items())

    return CodedTable(
        table.label, codes(table.task), {name: codes(columns) for name, columns in table.parties.items()}
    )


class Learnable(Method):
    """The values that `fedvalue.value` reports as `learnable`, with its defaults."""

    name = "learnable"
    about = "learnable, as fedvalue.value reports it"
    in_nats = True

    def value(self, table: VerticalTable) -> Estimate:
        """Through the public function, as a user calls it."""
        import fedvalue

        label = np.char.add("class ", table.label.astype(np.str_))  # never an amount
        result = fedvalue.value(label=label, task=dict(table.task) or None, parties=table.parties)
        values = {party.name: float(party.learnable or 0.0) for party in result.parties}
        game = None if result.coalitions is None else result.coalitions.get("learnable")
        return Estimate(values, None if game is None else np.asarray(game))


class LearnableJoint(Method):
    """The learnable game of 0.1.0: leave-one-out information of joint tables, under a monotone envelope."""

    name = "learnable-0.1.0"
    about = "learnable of 0.1.0: joint tables, 5 equal-width bins"
    in_nats = True

    def value(self, table: VerticalTable) -> Estimate:
        """From the joint counts of one code per party."""
        from fedvalue.valuation.items import item_table
        from fedvalue.valuation.statistics.joint_table_game import coalition_games

        items = item_table(coded(table, "width").joint_counts())
        return estimate_of_game(table, coalition_games(items)[1])


class Evidence(Method):
    """A game of pooled evidence, or the mean of several."""

    in_nats = True

    @abstractmethod
    def feature_tables(self, columns: CodedTable) -> Sequence[FeatureTable]:
        """The tables of the evidence, one per game."""

    def value(self, table: VerticalTable) -> Estimate:
        """Shapley values of the mean game."""
        from fedvalue.valuation.evidence.evidence_values import evidence_values

        tables = self.feature_tables(coded(table, "quantile"))
        games = [evidence_values(each).every_coalition for each in tables]
        return estimate_of_game(table, np.mean([game for game in games if game is not None], axis=0))


class ColumnEvidence(Evidence):
    """A party is a group of columns; without the joint tables' game that `learnable` has beside it."""

    name = "evidence-columns"
    about = "pooled evidence on feature columns, 5 quantile bins"

    def feature_tables(self, columns: CodedTable) -> Sequence[FeatureTable]:
        """Every feature is a column."""
        from fedvalue.valuation.evidence.feature_table import FeatureTable

        return [FeatureTable.from_columns(label=columns.label, task=columns.task, parties=columns.parties)]


class JointEvidence(Evidence):
    """A party is one column, the joint code of its features."""

    name = "evidence-joint"
    about = "pooled evidence on joint codes, 5 quantile bins"

    def feature_tables(self, columns: CodedTable) -> Sequence[FeatureTable]:
        """Every party is a column."""
        from fedvalue.valuation.evidence.feature_table import FeatureTable

        return [FeatureTable.from_joint_codes(columns.joint_counts())]


class MeanEvidence(Evidence):
    """The mean of both games of pooled evidence."""

    name = "evidence-mean"
    about = "mean of the two games of pooled evidence"

    def feature_tables(self, columns: CodedTable) -> Sequence[FeatureTable]:
        """Both tables."""
        kinds: tuple[Evidence, ...] = (ColumnEvidence(), JointEvidence())
        return [table for kind in kinds for table in kind.feature_tables(columns)]


class ShapleyCmi(Method):
    """The paper's metric: plug-in estimates of I(X_S; Y | X_t) on joint codes, five equal-width bins."""

    name = "shapley-cmi"
    about = "Shapley-CMI, 5 equal-width bins (the paper)"
    in_nats = True
    binning: ClassVar[Binning] = "width"

    def value(self, table: VerticalTable) -> Estimate:
        """H(Y | X_t) - H(Y | X_t, X_S) of every coalition S."""
        columns = coded(table, self.binning)
        entropies = [self.entropy(columns.label, columns.known_to(m)) for m in range(1 << table.n_parties)]
        return estimate_of_game(table, entropies[0] - np.array(entropies))

    def entropy(self, label: Codes, given: Sequence[Codes]) -> float:
        """H(label | given) in nats."""
        return conditional_entropy(label, given, np.ones(len(label), dtype=np.int64))


class ShapleyCmiQuantile(ShapleyCmi):
    """Shapley-CMI on quantile bins."""

    name = "shapley-cmi-quantile"
    about = "Shapley-CMI, 5 quantile bins"
    binning = "quantile"


class MillerMadow(ShapleyCmi):
    """Shapley-CMI with Miller and Madow's bias correction of every entropy, (occupied cells - 1) / (2 n)."""

    name = "miller-madow"
    about = "Shapley-CMI with Miller-Madow correction, 5 equal-width bins"

    def entropy(self, label: Codes, given: Sequence[Codes]) -> float:
        """H(label, given) - H(given), both corrected."""
        return _miller_madow([label, *given]) - (_miller_madow(given) if given else 0.0)


def _miller_madow(columns: Sequence[Codes]) -> float:
    counts = np.unique(pack(list(columns)), return_counts=True)[1]
    n = counts.sum()
    return float(np.log(n) - (counts * np.log(counts)).sum() / n + (len(counts) - 1) / (2 * n))


class InformationValue(Method):
    """Σ (p - q) ln(p / q) over the bins of each feature, added up over a party's features.

    The measure of credit scoring. p and q are the shares of a bin among the rows with and without a label,
    half a row added to each; with several labels, the mean over them by their frequency.
    """

    name = "information-value"
    about = "information value of each feature, summed, 5 quantile bins"

    def value(self, table: VerticalTable) -> dict[str, float]:
        """Each feature by itself; the task party's features do not matter."""
        columns = coded(table, "quantile")
        return {
            name: float(sum(information_value(code, columns.label) for code in codes))
            for name, codes in columns.parties.items()
        }


def information_value(code: Codes, label: Codes) -> float:
    """Information value of one coded feature."""
    kinds, of_label = np.unique(label, return_counts=True)
    n_bins = int(code.max()) + 1
    total = 0.0
    for kind, n_rows in zip(kinds, of_label, strict=True):
        with_it = np.bincount(code[label == kind], minlength=n_bins) + 0.5
        without = np.bincount(code[label != kind], minlength=n_bins) + 0.5
        p, q = with_it / with_it.sum(), without / without.sum()
        total += n_rows / len(label) * float(np.sum((p - q) * np.log(p / q)))
    return total


class KnnInformation(GameMethod):
    """Mutual information of the raw columns with the label from nearest neighbours (Ross, 2014).

    The objective of VF-MINE and PS-MI. Numbers are standardised, categories coded by falling frequency; a
    jitter of 1e-6 breaks ties. Of more than 2,000 rows the first 2,000 are used.
    """

    name = "knn-information"
    about = "Shapley value of KNN mutual information"
    in_nats = True

    def coalition(self, table: VerticalTable, mask: int) -> float:
        """I(X_t, X_S; Y) - I(X_t; Y)."""
        label = table.label[:_MOST_ROWS]
        without = knn_information(_standardised(table, 0), label) if table.task else 0.0
        return knn_information(_standardised(table, mask), label) - without


_NEIGHBOURS = 3
_MOST_ROWS = 2000  # neighbours in many dimensions take time with the square of the rows


def knn_information(X: Floats, label: Codes) -> float:
    """I(X; Y) of real vectors and a discrete label, in nats: PLoS ONE 9(2) e87357, Eq. 2.

    Labels with a single row have no neighbour and are left out.
    """
    from scipy.spatial import cKDTree
    from scipy.special import digamma

    kinds, counts = np.unique(label, return_counts=True)
    keep = np.isin(label, kinds[counts > 1])
    X, label = X[keep], label[keep]
    radius, n_label, k_used = np.empty(len(label)), np.empty(len(label)), np.empty(len(label))
    for kind in np.unique(label):
        rows = label == kind
        k = min(_NEIGHBOURS, int(rows.sum()) - 1)
        distance = cKDTree(X[rows]).query(X[rows], k=k + 1, p=np.inf)[0][:, -1]
        radius[rows], n_label[rows], k_used[rows] = np.nextafter(distance, 0), rows.sum(), k
    inside = cKDTree(X).query_ball_point(X, radius, p=np.inf, return_length=True)
    n = len(label)
    return float(digamma(n) + np.mean(digamma(k_used)) - np.mean(digamma(n_label)) - np.mean(digamma(inside)))


def _standardised(table: VerticalTable, mask: int) -> Floats:
    columns = []
    for column in table.columns(mask).values():
        if column.dtype.kind == "U":
            _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
            numbers = np.argsort(np.argsort(-counts, kind="stable"))[place].astype(np.float64)
        else:
            numbers = np.asarray(column, dtype=np.float64)
            numbers = np.where(np.isnan(numbers), np.nanmedian(numbers), numbers)
        spread = numbers.std()
        columns.append((numbers - numbers.mean()) / (spread if spread > 0 else 1.0))
    X = np.column_stack(columns) if columns else np.zeros((table.n_samples, 0))
    X = X[:_MOST_ROWS]
    return np.asarray(X + 1e-6 * np.random.default_rng(0).normal(size=X.shape))
