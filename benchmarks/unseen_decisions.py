"""Wrong decisions avoided per 1,000 cases: what the uplift says, and what retrained models do on unseen rows.

    FEDVALUE_DATA=... python benchmarks/unseen_decisions.py credit bank --splits 1 2 --rows 600 1500 4000
    FEDVALUE_DATA=... python benchmarks/unseen_decisions.py credit bank --splits 1 2 --rows 600 1500 --auc

The columns of a data set are dealt at random to three parties (three each, or all of them), and every second
time to the task party too. The uplift sees the first rows of a shuffled table. Boosted trees and logistic
regression are trained on the same rows, with and without the parties, and decide about up to 20,000 others.
Nothing was tuned on Credit, Bank and Music. With --auc the
gain in AUC of data sets with two labels, in thousandths.
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

import fedvalue
from fedvalue.benchmark.learners import matrices, predict
from fedvalue.datasets import label_codes, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fedvalue.datasets import Dataset

MODELS = {"trees": "boosted trees", "logistic": "ridge on bins"}
N_PARTIES = 3
MOST_UNSEEN = 20_000


def dealt(
    data: Dataset, features: int, split: int
) -> tuple[list[str], dict[str, list[str]], NDArray[np.int64]]:
    """The task party's columns, the parties' and an order of rows; 0 features: all of them."""
    rng = np.random.default_rng(zlib.crc32(f"unseen/{data.name}/{features}/{split}".encode()))
    order = [data.feature_names[k] for k in rng.permutation(len(data.X))]
    n_task = 2 if features == 0 else features if (features + split) % 2 else 0
    task, free = order[:n_task], order[n_task:]
    held = [
        free[k::N_PARTIES] if features == 0 else free[k * features : (k + 1) * features] for k in range(3)
    ]
    return task, {f"party {k + 1}": names for k, names in enumerate(held)}, rng.permutation(data.n_samples)


def area(chance: NDArray[np.float64], label: NDArray[np.int64]) -> float:
    """AUC, ties half."""
    level = np.unique(chance, return_inverse=True)[1]
    plus, minus = (np.bincount(level, weights=label == y) for y in (1, 0))
    return float(plus @ (np.cumsum(minus) - 0.5 * minus) / (plus.sum() * minus.sum()))


def losses_of(
    data: Dataset, names: Sequence[str], known: NDArray[np.int64], unseen: NDArray[np.int64], auc: bool
) -> dict[str, float]:
    """Part of the unseen rows, or of pairs of them, that each model trained on the known ones gets wrong."""
    label = label_codes(data)
    if not names:
        most = np.bincount(label[known]).argmax()
        return dict.fromkeys(MODELS, 0.5 if auc else float(np.mean(label[unseen] != most)))
    left, right = matrices(*({name: data.X[name][rows] for name in names} for rows in (known, unseen)))
    n_labels = int(label.max()) + 1
    seed = zlib.crc32("/".join(names).encode()) % 2**31
    with threadpool_limits(1):
        found = {
            name: predict(learner, left, label[known], right, n_labels=n_labels, seed=seed)
            for name, learner in MODELS.items()
        }
    if auc:
        return {name: 1.0 - area(p[:, 1], label[unseen]) for name, p in found.items()}
    return {name: float(np.mean(p.argmax(axis=1) != label[unseen])) for name, p in found.items()}


def cases(
    name: str, features: int, split: int, n_known: int, *, auc: bool = False
) -> Iterator[tuple[str, dict[str, float]]]:
    """For all parties and each alone: what the uplift says, its interval, and what the models do."""
    data = load(name)
    task, parties, rows = dealt(data, features, split)
    known, unseen = rows[:n_known], rows[n_known : n_known + MOST_UNSEEN]
    found = fedvalue.value(
        label=label_codes(data)[known],
        task={name: data.X[name][known] for name in task} or None,
        parties={
            party: {name: data.X[name][known] for name in columns} for party, columns in parties.items()
        },
    )
    uplift = found.uplift or ()
    without = [row for row in uplift if row.role == "nobody"]
    nobody = losses_of(data, task, known, unseen, auc)
    for row in uplift:
        if auc:
            gain, ends = ((row.auc or 0.5) - (without[0].auc or 0.5)) * 1000, row.auc_gain_interval
            ends = None if ends is None else (1000 * ends[0], 1000 * ends[1])
        else:
            gain, ends = row.errors_avoided_per_1000 or 0.0, row.errors_avoided_interval
        if row.role not in ("all", "alone") or ends is None:
            continue
        held = [name for party in row.parties for name in parties[party]]
        with_them = losses_of(data, task + held, known, unseen, auc)
        low, high = ends
        truth = {model: 1000 * (nobody[model] - with_them[model]) for model in MODELS}
        inside = {f"{model} inside": float(low <= gain <= high) for model, gain in truth.items()}
        yield row.role, {"uplift": gain, "width": high - low, **truth, **inside}


def main() -> None:
    """Print means over the dealings of each data set, number of rows and role."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data_sets", nargs="+")
    parser.add_argument("--splits", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--features", nargs="+", type=int, default=[3, 0])
    parser.add_argument("--rows", nargs="+", type=int, default=[600, 1500, 4000])
    parser.add_argument("--auc", action="store_true", help="the gain in AUC instead")
    chosen = parser.parse_args()
    print("| data set | rows | parties | cases | uplift | trees | logistic | holds trees | holds logistic |")
    print("|---" * 9 + "|", flush=True)
    for name in chosen.data_sets:
        for n_known in chosen.rows:
            measured = defaultdict(list)
            for split in chosen.splits:
                for features in chosen.features:
                    for role, case in cases(name, features, split, n_known, auc=chosen.auc):
                        measured[role].append(case)
            for role, rows in measured.items():
                mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
                figures = (f"{mean[key]:.1f}" for key in ("uplift", *MODELS))
                held = (f"{mean[f'{model} inside']:.0%}" for model in MODELS)
                cells = (name, str(n_known), role, str(len(rows)), *figures, *held)
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
