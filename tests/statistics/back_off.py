"""The evidence behind the learnable value: which back-off, how strong, and how much bias correction.

    python -m tests.statistics.back_off

prints the table of docs/decisions/0601-learnable-back-off.md. The games are written from their
definitions here, in plain NumPy, because most of the variants are not in the package.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from tests.statistics.worlds import World, worlds

USELESS = (2, 10, 50, 200)
STRENGTHS = (1.0, 2.0, 4.0, 8.0)


def shapley(game: np.ndarray) -> np.ndarray:
    """By the definition, over all coalitions."""
    p = len(game).bit_length() - 1
    phi = np.zeros(p)
    for mask in range(len(game)):
        s = mask.bit_count()
        for d in range(p):
            if not mask >> d & 1:
                weight = math.factorial(s) * math.factorial(p - s - 1) / math.factorial(p)
                phi[d] += weight * (game[mask | 1 << d] - game[mask])
    return phi


class Cells:
    """N(x_S, x_t) and N(x_S, x_t, y) of every sample, for every coalition."""

    def __init__(self, task, parties, label) -> None:
        self.n_labels = len(np.unique(label))
        self.p = len(parties)
        key = {0: np.unique(task, return_inverse=True)[1]}
        self.total, self.same = {}, {}
        for mask in range(1 << self.p):
            if mask:
                low = (mask & -mask).bit_length() - 1
                column = parties[low]
                joined = key[mask & (mask - 1)] * (column.max() + 1) + column
                key[mask] = np.unique(joined, return_inverse=True)[1]
            self.total[mask] = np.bincount(key[mask])[key[mask]]
            pair = key[mask] * self.n_labels + label
            self.same[mask] = np.bincount(pair)[pair]

    def parts(self, mask: int) -> list[int]:
        return [mask ^ (1 << d) for d in range(self.p) if mask >> d & 1]

    def plug_in(self) -> np.ndarray:
        log = [np.log(self.same[m] / self.total[m]) for m in range(1 << self.p)]
        return np.array([np.mean(row - log[0]) for row in log])

    def leave_one_out(self, alpha: float, back_off: str) -> np.ndarray:
        """loo(S) of all coalitions; `back_off` says what stands behind a coalition's own table."""
        chance = {0: (self.same[0] - 1 + alpha / self.n_labels) / (self.total[0] - 1 + alpha)}
        loo = np.zeros(1 << self.p)
        for mask in range(1, 1 << self.p):
            if back_off == "direct":
                behind = chance[0]
            elif back_off == "mean of parts":
                behind = np.mean([chance[part] for part in self.parts(mask)], axis=0)
            else:
                behind = chance[max(self.parts(mask), key=lambda part: loo[part])]
            own = (self.same[mask] - 1 + alpha * behind) / (self.total[mask] - 1 + alpha)
            chance[mask] = np.where(self.total[mask] == self.total[0], chance[0], own)
            loo[mask] = np.mean(np.log(chance[mask]) - np.log(chance[0]))
        return loo


def envelope(cells: Cells, loo: np.ndarray, plug: np.ndarray, cap: float) -> np.ndarray:
    """v* as `fedvalue.valuation.learnable` defines it; cap = 1 is the plain envelope of loo."""
    best = np.zeros_like(loo)
    value = np.zeros_like(loo)
    for mask in range(1, len(loo)):
        parts = cells.parts(mask)
        behind, base = max(best[part] for part in parts), max(value[part] for part in parts)
        best[mask] = max(behind, loo[mask])
        gain = loo[mask] - behind
        value[mask] = base
        if gain > 0:
            corrected = 0.5 * (loo[mask] + max(plug[mask], loo[mask]))
            value[mask] = max(base, min(corrected, base + cap * gain))
    return value


def samples(world: World, n: int, seed: int):
    counts = world.draw(n, seed, USELESS, row_id=True)
    row = np.repeat(np.arange(counts.n_items), counts.count)
    return Cells(counts.task[row], list(counts.parties[row].T), counts.label[row])


def variants():
    for back_off in ("direct", "mean of parts", "best part"):
        for alpha in STRENGTHS:
            yield back_off, alpha, 1.0
    for cap in (1.5, 2.0, 3.0):
        for alpha in STRENGTHS:
            yield "direct", alpha, cap


def study(sizes: dict[int, int]) -> dict:
    """Mean useless share, and mean relative error of each informative party, per variant and n."""
    out: dict = {}
    for world in worlds():
        truth = world.truth()
        k = len(truth)
        for n, repeats in sizes.items():
            found: dict = {}
            for seed in range(repeats):
                cells = samples(world, n, seed)
                plug = cells.plug_in()
                loo: dict = {}
                for back_off, alpha, cap in variants():
                    if (back_off, alpha) not in loo:
                        loo[back_off, alpha] = cells.leave_one_out(alpha, back_off)
                    game = envelope(cells, loo[back_off, alpha], plug, cap)
                    found.setdefault((back_off, alpha, cap), []).append(shapley(game))
            for variant, draws in found.items():
                mean = np.mean(draws, axis=0)
                out.setdefault(variant, {}).setdefault(n, []).append(
                    (mean[k:].mean() / mean.sum(), (mean[:k] / truth - 1).tolist())
                )
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=40)
    repeats = parser.parse_args().repeats
    sizes = {150: repeats, 1000: max(4, repeats // 2)}
    found = study(sizes)
    print("| back-off | alpha | cap | useless share, n=150 (worst world) | n=1,000 | "
          "informative, n=1,000: mean error | worst |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for (back_off, alpha, cap), by_n in found.items():
        small = max(share for share, _ in by_n[150])
        large = max(share for share, _ in by_n[1000])
        errors = [e for _, row in by_n[1000] for e in row]
        worst = max(errors, key=abs)
        print(f"| {back_off} | {alpha:g} | {cap:g} | {small:.2%} | {large:.2%} | "
              f"{np.mean(errors):+.1%} | {worst:+.1%} |")  # fmt: skip


if __name__ == "__main__":
    main()
