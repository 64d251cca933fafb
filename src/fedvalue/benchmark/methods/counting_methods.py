"""Methods that count, without any model: Shapley-CMI, Miller-Madow, information value, KNN."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedvalue.benchmark.methods.coded_table import coded
from fedvalue.benchmark.methods.method import Estimate, GameMethod, Method, estimate_of_game
from fedvalue.information.cmi import conditional_entropy
from fedvalue.information.contingency import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedvalue.benchmark.problem import VerticalTable
    from fedvalue.tables.coding_settings import Binning
    from fedvalue.typing import Codes, Floats


class ShapleyCmi(Method):
    """The paper's metric: plug-in estimates of I(X_S; Y | X_t) on joint codes, five equal-width bins."""

    name = "shapley-cmi"
    about = "Shapley-CMI, 5 equal-width bins (the paper)"
    in_nats = True
    binning: ClassVar[Binning] = "width"

    def value(self, table: VerticalTable) -> Estimate:
        """Plug-in entropies of joint codes."""
        columns = coded(table, self.binning)
        count = np.ones(table.n_samples, dtype=np.int64)
        without = conditional_entropy(columns.label, columns.task, count)
        game = np.zeros(1 << table.n_parties)
        for mask in range(1, len(game)):
            given = [*columns.task, *columns.coalition(mask)]
            game[mask] = without - conditional_entropy(columns.label, given, count)
        return estimate_of_game(table, game)


class ShapleyCmiQuantile(ShapleyCmi):
    """Shapley-CMI on quantile bins."""

    name = "shapley-cmi-quantile"
    about = "Shapley-CMI, 5 quantile bins"
    binning = "quantile"


class MillerMadow(Method):
    """Shapley-CMI with Miller and Madow's bias correction of every entropy, (occupied cells - 1) / (2 n)."""

    name = "miller-madow"
    about = "Shapley-CMI with Miller-Madow correction, 5 equal-width bins"
    in_nats = True

    def value(self, table: VerticalTable) -> Estimate:
        """H(Y | X_t) - H(Y | X_t, X_S), each as a difference of corrected entropies."""
        columns = coded(table, "width")
        without = _corrected(columns.label, columns.task)
        game = np.zeros(1 << table.n_parties)
        for mask in range(1, len(game)):
            game[mask] = without - _corrected(columns.label, [*columns.task, *columns.coalition(mask)])
        return estimate_of_game(table, game)


def _corrected(label: Codes, given: Sequence[Codes]) -> float:
    """H(label | given) = H(label, given) - H(given) with Miller-Madow corrections."""
    return _miller_madow([label, *given]) - (_miller_madow(given) if given else 0.0)


def _miller_madow(columns: Sequence[Codes]) -> float:
    counts = np.unique(pack(list(columns)), return_counts=True)[1]
    n = counts.sum()
    return float(np.log(n) - (counts * np.log(counts)).sum() / n + (len(counts) - 1) / (2 * n))


class InformationValue(Method):
    """Σ (p - q) ln(p / q) over the bins of each feature, added up over a party's features.

    What credit scoring uses. p and q are the shares of a bin among the rows with and without a label, half a
    row added to each; with several labels, the mean over them by their frequency.
    """

    name = "information-value"
    about = "information value of each feature, summed, 5 quantile bins"

    def value(self, table: VerticalTable) -> dict[str, float]:
        """Each feature by itself; what the task party has does not matter."""
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
