"""Makes the example tables: `python -m fedvalue.simulation.example.generate FOLDER`.

5,000 invented customers. A default depends on three hidden variables: the strain on the budget, which the
telco sees in late bills and the bank, faintly, in income; the habit of buying on credit, which the shop sees;
and bad luck, which the insurer sees in claims. The utility's columns are independent of everything, and so
useless. Every party stores its customers in a different order.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEED = 20240117
N = 5000
Table = dict[str, list[str]]


def tables(seed: int = SEED) -> dict[str, Table]:
    """The five tables, each in its own row order. Other seeds draw other customers of the same population."""
    rng = np.random.default_rng(seed)
    ids = np.array([f"C{number:05d}" for number in rng.choice(90_000, size=N, replace=False) + 10_000])
    strain, habit, luck = rng.normal(size=(3, N))
    income = np.exp(10.4 - 0.2 * strain + 0.3 * rng.normal(size=N))
    late = _steps(1 + 1.2 * strain, 3, rng)
    contract = rng.choice([12, 24], size=N)
    credit = np.clip(np.round(45 + 20 * habit + 6 * rng.normal(size=N)), 0, 90)
    returns = _steps(0.5 + 0.3 * habit, 2, rng)
    claims = _steps(1 - 1.1 * luck, 3, rng)
    odds = -1.5 + 1.8 * strain + 1.5 * habit - 1.6 * luck
    default = rng.random(N) < 1 / (1 + np.exp(-odds))
    columns: dict[str, Table] = {
        "bank": {
            # Capped, so that no bin of it holds a handful of customers.
            "income": [f"{value:.0f}" for value in np.minimum(income, 70_000)],
            "defaulted": ["yes" if defaulted else "no" for defaulted in default],
        },
        "telco": {
            "late_bills": list(map(str, late)),
            "contract_months": list(map(str, contract)),
        },
        "shop": {
            "bought_on_credit": [f"{share:.0f}" for share in credit],
            "returns": list(map(str, returns)),
        },
        "insurer": {
            "claims": list(map(str, claims)),
            "region": list(map(str, rng.choice(["north", "south"], size=N))),
        },
        "utility": {
            "meter": list(map(str, rng.choice(["analogue", "digital"], size=N))),
            "kwh": [f"{used:.0f}" for used in rng.gamma(5.0, 500.0, size=N)],
        },
    }
    result: dict[str, Table] = {}
    for party, table in columns.items():
        order = rng.permutation(N)
        whole = {"customer": list(map(str, ids)), **table}
        result[party] = {name: [column[k] for k in order] for name, column in whole.items()}
    return result


def _steps(x: NDArray[np.float64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A small whole number that follows x loosely."""
    return np.clip(np.round(x + 0.3 * rng.normal(size=len(x))), 0, most).astype(np.int64)


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
