"""Record low-order values of exact and of noisy tables: `python -m tests.vectors.make_low_order`.

That the values are right is shown elsewhere, against populations with known ones
(`tests/unit/valuation/low_order`). This file shows that they stay: certificates of `gram` are checked by
computing them again, so they never change without `VALUES_VERSION`. Record again only after raising it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedvalue._version import VALUES_VERSION
from fedvalue.information.pair_tables import TASK, PairLayout, PairTables, tables_of_columns
from fedvalue.valuation.low_order import ESTIMATOR_VERSION
from fedvalue.valuation.low_order.low_order_valuation import value_tables
from fedvalue.valuation.result import Valuation

FILE = Path(__file__).with_name("low-order.json")


def tables() -> list[PairTables]:
    """A task column and three parties with one or two columns each; the last one tells nothing."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 600)
    columns = [
        np.where(rng.random(600) < strength, label, rng.integers(0, size, 600))
        for strength, size in ((0.3, 3), (0.5, 3), (0.2, 3), (0.4, 3), (0.0, 4))
    ]
    layout = PairLayout((3, 3, 3, 3, 4), (TASK, 0, 0, 1, 2), 3, ("telco", "shop", "noise"))
    exact = tables_of_columns(layout, columns, label)
    label_variance, pair_variance = 9.0, 25.0
    deviation = np.full(layout.n_cells, pair_variance**0.5)
    deviation[: layout.n_label_cells] = label_variance**0.5
    noise = np.rint(rng.normal(0.0, deviation)).astype(np.int64)
    return [exact, exact.with_noise(noise, label_variance, pair_variance)]


def tables_from(case: dict[str, Any]) -> PairTables:
    """The tables of a recorded case."""
    layout = PairLayout(tuple(case["sizes"]), tuple(case["owner"]), case["n_labels"], tuple(case["parties"]))
    cells = np.array(case["cells"], dtype=np.int64)
    return PairTables(layout, cells, case["n_samples"], case["label_variance"], case["pair_variance"])


def numbers(valuation: Valuation) -> dict[str, Any]:
    """What a certificate shows, beside words."""
    return {
        "total": valuation.learnable_total,
        "total_interval": list(valuation.learnable_total_interval or ()),
        "learnable": [party.learnable for party in valuation.parties],
        "intervals": [list(party.learnable_interval or ()) for party in valuation.parties],
    }


def recorded(one: PairTables) -> dict[str, Any]:
    """One case: the tables and their values."""
    layout = one.layout
    return {
        "sizes": layout.sizes,
        "owner": layout.owner,
        "n_labels": layout.n_labels,
        "parties": layout.parties,
        "n_samples": one.n_samples,
        "label_variance": one.label_variance,
        "pair_variance": one.pair_variance,
        "cells": one.cells.tolist(),
        "values": numbers(value_tables(one)),
    }


if __name__ == "__main__":
    cases = [recorded(one) for one in tables()]
    head = {"values_version": VALUES_VERSION, "estimator_version": ESTIMATOR_VERSION}
    lines = [
        f" {json.dumps(key)}: {json.dumps(case)}" for key, case in zip(("exact", "noisy"), cases, strict=True)
    ]
    FILE.write_text(json.dumps(head)[:-1] + ",\n" + ",\n".join(lines) + "\n}\n")
