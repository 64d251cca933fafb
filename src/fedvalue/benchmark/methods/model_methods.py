"""Methods that train models: SHAP-ensemble, permutation importance, leaving one party out."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.benchmark.learners import N_FOLDS, matrices, predict, rows_of, stratified_folds
from fedvalue.benchmark.methods.method import Method
from fedvalue.datasets import Dataset, feature_codes
from fedvalue.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fedvalue.benchmark.problem import VerticalTable
    from fedvalue.datasets.dataset import Feature
    from fedvalue.typing import Codes, Floats

_SEED = zlib.crc32(b"fedvalue benchmark")
_LEARNER = "boosted trees"


class ShapEnsemble(Method):
    """The paper's reference, as its authors computed it: SHAP of the well-performing of five models.

    Models within 0.05 of the best hold-out accuracy are averaged, as in the paper's Table 2.
    """

    name = "shap-ensemble"
    about = "SHAP of five trained models, averaged (the paper's reference)"
    version = 3

    epsilon = 0.05
    n_draws = 2
    explained, background, coalitions = 60, 10, 100

    def value(self, table: VerticalTable) -> dict[str, float]:
        """The task party's features are inputs of the models and get no value."""
        from fedvalue.paper.reference_models import (
            MODELS,
            ShapSize,
            feature_shap,
            fit_model,
            hold_out_accuracy,
            party_shap,
            shap_ensemble,
            well_performing,
        )

        codes, groups = _ordinal_codes(table)
        accuracy = {
            model: float(
                np.mean([hold_out_accuracy(model, codes, table.label, draw=k) for k in range(self.n_draws)])
            )
            for model in MODELS
        }
        selected = well_performing(accuracy, self.epsilon)
        size = ShapSize(self.explained, self.background, self.coalitions)
        shap = {
            model: party_shap(
                feature_shap(
                    fit_model(model, codes, table.label, probabilities=True), codes, size, seed=_SEED
                ),
                groups,
            )
            for model in selected
        }
        return dict(zip(table.names, shap_ensemble(shap, selected).tolist(), strict=True))


def _ordinal_codes(table: VerticalTable) -> tuple[NDArray[np.int64], list[list[int]]]:
    """All features in the paper's five bins of equal width, and the places of each party's features."""
    held = table.columns(table.everybody)
    whole = Dataset("table", held, table.label.astype(np.str_), "", "", "", "")
    groups, place = [], len(table.task)
    for columns in table.parties.values():
        groups.append(list(range(place, place + len(columns))))
        place += len(columns)
    return feature_codes(whole), groups


class PermutationImportance(Method):
    """Growth of the log loss of boosted trees on all columns when a party's held-out rows are shuffled."""

    name = "permutation-importance"
    about = "permutation importance of boosted trees"
    version = 1

    n_shuffles = 5

    def value(self, table: VerticalTable) -> dict[str, float]:
        """Five folds, five shuffles of each held-out part; a party's columns move together."""
        held = table.columns(table.everybody)
        rng = np.random.default_rng(_SEED)
        growth = np.zeros(table.n_parties)
        for fold in _folds(table.label):
            rows = rows_of(held, fold)
            tables = [rows]
            for party, columns in table.parties.items():
                for _ in range(self.n_shuffles):
                    order = rng.permutation(int(fold.sum()))
                    tables.append(
                        rows | {f"{party}.{name}": rows[f"{party}.{name}"][order] for name in columns}
                    )
            losses = _losses(held, table.label, fold, tables)
            growth += losses[1:].reshape(table.n_parties, self.n_shuffles).mean(axis=1) - losses[0]
        return dict(zip(table.names, (growth / table.n_samples).tolist(), strict=True))


class LeaveOnePartyOut(Method):
    """Growth of the log loss of boosted trees when they are retrained without a party."""

    name = "leave-one-party-out"
    about = "log loss of boosted trees without the party, less that with all"
    version = 1

    def value(self, table: VerticalTable) -> dict[str, float]:
        """Five folds; what two parties share is worth nothing to either.

        Raises:
            InputError: There is a single party, and a task party without features.
        """
        if table.n_parties == 1 and not table.task:
            raise InputError("leaving the only party out leaves no column to train on")

        def total(mask: int) -> float:
            held = table.columns(mask)
            return sum(
                float(_losses(held, table.label, fold, [rows_of(held, fold)])[0])
                for fold in _folds(table.label)
            )

        with_all = total(table.everybody)
        return {
            name: (total(table.everybody & ~(1 << k)) - with_all) / table.n_samples
            for k, name in enumerate(table.names)
        }


def _losses(
    held: Mapping[str, Feature],
    label: Codes,
    fold: NDArray[np.bool_],
    tables: Sequence[Mapping[str, Feature]],
) -> Floats:
    """Train on the rows outside the fold; the summed log loss of each table of the fold's rows."""
    rows = {name: np.concatenate([table[name] for table in tables]) for name in held}
    left, right = matrices(rows_of(held, ~fold), rows)
    n_labels = int(label.max()) + 1
    p = predict(_LEARNER, left, label[~fold], right, n_labels=n_labels, seed=_SEED)
    of_label = p[np.arange(len(p)), np.tile(label[fold], len(tables))]
    return np.asarray(-np.log(of_label).reshape(len(tables), -1).sum(axis=1))


def _folds(label: Codes) -> list[NDArray[np.bool_]]:
    """The rows of each fold."""
    fold = stratified_folds(label, np.random.default_rng(_SEED))
    return [fold == k for k in range(N_FOLDS)]
