"""The evidence behind the learnable value: which back-off, how strong, and how much bias correction.

    python -m tests.statistics.back_off

prints the table of docs/decisions/0601-learnable-back-off.md. The games are written from their
definitions here, in plain NumPy, because most of the variants are not in the package.
"""

from __future__ import annotations

import argparse
import itertools
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


def envelope(cells: Cells, loo: np.ndarray, plug: np.ndarray, cap: float, luck: float) -> np.ndarray:
    """v* as `statistics.joint_table_game` defines it; cap = 1 and luck = 0 is the plain envelope of loo."""
    best = np.zeros_like(loo)
    value = np.zeros_like(loo)
    for mask in range(1, len(loo)):
        parts = cells.parts(mask)
        behind, base = max(best[part] for part in parts), max(value[part] for part in parts)
        best[mask] = max(behind, loo[mask])
        gain = loo[mask] - behind
        value[mask] = base
        if gain > luck:
            corrected = 0.5 * (loo[mask] + max(plug[mask], loo[mask]))
            value[mask] = max(base, min(corrected, base + cap * min(gain, 2 * (gain - luck))))
    return value


def samples(world: World, n: int, seed: int):
    crowded = world.name == "crowd"
    counts = world.draw(n, seed, (2,) * 6 if crowded else USELESS, row_id=not crowded)
    row = np.repeat(np.arange(counts.n_items), counts.count)
    return Cells(counts.task[row], list(counts.parties[row].T), counts.label[row])


def crowd() -> World:
    """A weak signal in two binary parties, to which six useless binary ones are added."""
    joint = np.zeros((1, 2, 2, 2))
    for a, b in itertools.product(range(2), range(2)):
        chance = 1 / (1 + math.exp(-(a - 0.5) * 1.5 - (b - 0.5)))
        joint[0, a, b] = np.array([1 - chance, chance]) / 4
    return World("crowd", joint)


def variants():
    """Back-off, alpha, cap, noise: first the back-off alone, then what is added to it."""
    for back_off in ("direct", "mean of parts", "best part"):
        for alpha in STRENGTHS:
            yield back_off, alpha, 1.0, 0.0
    for alpha in STRENGTHS:
        yield "direct", alpha, 2.0, 0.0
    for cap in (1.0, 1.5, 2.0, 3.0):
        for noise in (0.0, 2.0, 4.0, 6.0):
            yield "direct", 1.0, cap, noise


def study(sizes: dict[int, int]) -> dict:
    """Mean useless share, and mean relative error of each informative party, per variant, n and world."""
    out: dict = {}
    for world in (*worlds(), crowd()):
        truth = world.truth()
        k = len(truth)
        for n, repeats in sizes.items():
            found: dict = {}
            for seed in range(repeats):
                cells = samples(world, n, seed)
                plug = cells.plug_in()
                loo: dict = {}
                for back_off, alpha, cap, noise in dict.fromkeys(variants()):
                    if (back_off, alpha) not in loo:
                        loo[back_off, alpha] = cells.leave_one_out(alpha, back_off)
                    game = envelope(cells, loo[back_off, alpha], plug, cap, noise / n)
                    found.setdefault((back_off, alpha, cap, noise), []).append(shapley(game))
            for variant, draws in found.items():
                mean = np.mean(draws, axis=0)
                out.setdefault(variant, {})[n, world.name] = (
                    mean[k:].mean() / mean.sum(),
                    (mean[:k] / truth - 1).tolist(),
                )
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=40)
    repeats = parser.parse_args().repeats
    found = study({150: repeats, 1000: max(4, repeats // 2)})
    names = [world.name for world in worlds()]
    print("| back-off | alpha | cap | noise | useless share, n=150: worst world | crowd "
          "| n=1,000: worst world | crowd | informative, n=1,000: mean error | worst |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (back_off, alpha, cap, noise), cells in found.items():
        shares = [max(cells[n, name][0] for name in names) for n in (150, 1000)]
        crowded = [cells[n, "crowd"][0] for n in (150, 1000)]
        errors = [e for name in names for e in cells[1000, name][1]]
        print(f"| {back_off} | {alpha:g} | {cap:g} | {noise:g} | {shares[0]:.2%} | {crowded[0]:.2%} "
              f"| {shares[1]:.2%} | {crowded[1]:.2%} | {np.mean(errors):+.1%} "
              f"| {max(errors, key=abs):+.1%} |")  # fmt: skip


if __name__ == "__main__":
    main()
