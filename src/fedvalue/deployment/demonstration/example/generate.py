"""Makes the example tables: `python -m fedvalue.deployment.demonstration.example.generate FOLDER`.

2,000 invented customers. Whether one defaults depends on a hidden strain on the budget, which each
party sees from its side: the bank by income, the telco by late bills, the shop by purchases on
credit, the insurer by claims. The utility's columns are drawn independently of everything: nearly
useless. Every party stores its customers in an order of its own.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

SEED = 20240117
N = 2000
Table = dict[str, list[str]]


def tables() -> dict[str, Table]:
    """The five tables, each in its own row order."""
    rng = np.random.default_rng(SEED)
    ids = np.array([f"C{number:05d}" for number in rng.choice(90_000, size=N, replace=False) + 10_000])
    strain = rng.normal(size=N)
    habit = rng.normal(size=N)
    income = np.exp(10.4 - 0.35 * strain + 0.3 * rng.normal(size=N))
    late = rng.poisson(np.exp(0.2 + 0.7 * strain))
    months = rng.integers(1, 120, size=N)
    credit = np.clip(np.round(40 + 18 * strain + 10 * habit + 8 * rng.normal(size=N)), 0, 100)
    returns = rng.poisson(np.exp(0.1 + 0.5 * habit))
    claims = rng.poisson(np.exp(-0.6 + 0.6 * strain + 0.3 * habit))
    odds = -1.6 + 1.3 * strain + 0.6 * habit + 0.02 * (credit - 40)
    default = rng.random(N) < 1 / (1 + np.exp(-odds))
    columns: dict[str, dict[str, list[str]]] = {
        "bank": {
            # Capped, so that no bin of it holds a handful of customers.
            "income": [f"{value:.0f}" for value in np.minimum(income, 70_000)],
            "defaulted": ["yes" if one else "no" for one in default],
        },
        "telco": {"late_bills": [str(one) for one in late], "months_with_us": [str(one) for one in months]},
        "shop": {
            "bought_on_credit": [f"{one:.0f}" for one in credit],
            "returns": [str(one) for one in returns],
        },
        "insurer": {
            "claims": [str(one) for one in claims],
            "region": [str(one) for one in rng.choice(["north", "south", "east", "west"], size=N)],
        },
        "utility": {
            "meter": [str(one) for one in rng.choice(["analogue", "digital"], size=N)],
            "kwh": [f"{one:.0f}" for one in rng.gamma(5.0, 500.0, size=N)],
        },
    }
    result: dict[str, Table] = {}
    for party, table in columns.items():
        order = rng.permutation(N)
        everything = {"customer": [str(one) for one in ids], **table}
        result[party] = {name: [column[k] for k in order] for name, column in everything.items()}
    return result


def write(folder: Path) -> None:
    """Write one CSV per party."""
    folder.mkdir(parents=True, exist_ok=True)
    for party, table in tables().items():
        with (folder / f"{party}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
