"""Results whose right advice is known, with uplift, for sentences about them."""

from __future__ import annotations

import itertools

from msgspec.structs import replace

from fedvalue.valuation.result import UpliftRow, Valuation
from tests.unit.decisions.results import result_of_game, result_of_values


def uplift_row(
    role: str, parties: tuple[str, ...], errors: float, *, half=8.0, auc=None, log_loss=0.5
) -> UpliftRow:
    """A row with this many wrong decisions per 1,000, against 190 with nobody."""
    avoided = None if role == "nobody" else 190 - errors
    return UpliftRow(
        parties=parties, role=role, log_loss=log_loss, accuracy=1 - errors / 1000, auc=auc,
        ks=None if auc is None else 2 * auc - 1, errors_avoided_per_1000=avoided,
        errors_avoided_interval=None if avoided is None else (avoided - half, avoided + half),
    )  # fmt: skip


def four_parties() -> Valuation:
    """insurer, shop and telco bring 0.07 nats each, utility nothing; the three avoid 46 of 190 errors."""
    names = ["telco", "shop", "insurer", "utility"]
    result = result_of_values([0.06, 0.07, 0.08, 0.0], names=names, se=0.005, n_samples=5000)
    *others, utility = result.parties
    result = replace(result, parties=(*others, replace(utility, learnable_interval=(-0.0003, 0.0003))))
    table = [0.0] * 16
    for mask in range(16):
        table[mask] = sum(v for k, v in enumerate([0.06, 0.07, 0.08, 0.0]) if mask >> k & 1)
    uplift = (
        uplift_row("nobody", (), 190, auc=0.61, log_loss=0.61),
        *(uplift_row("alone", (name,), e) for name, e in zip(names, (180, 176, 172, 190), strict=True)),
        uplift_row("all", tuple(names), 145),
        *(
            uplift_row("all_but", tuple(n for n in names if n != name), e)
            for name, e in zip(names, (160, 161, 163, 144), strict=True)
        ),
    )
    return replace(
        result,
        label_entropy=0.62,
        coalitions={"learnable": tuple(table), "value": tuple(table)},
        uplift=uplift,
    )


def with_every_set() -> Valuation:
    """The same with a row for every pair, of which insurer and shop avoid 33.4 errors."""
    result = four_parties()
    names = [party.name for party in result.parties]
    pairs = [
        uplift_row("set", pair, 190 - (33.4 if set(pair) == {"insurer", "shop"} else 20))
        for pair in itertools.combinations(names, 2)
    ]
    return replace(result, uplift=(*(result.uplift or ()), *pairs))


def with_undecided() -> Valuation:
    """a is clear, b is 0.004 +- 0.01 in 1,000 rows."""
    return replace(
        result_of_values([0.2, 0.004], names=["a", "b"], se=0.005, n_samples=1000), label_entropy=0.6
    )


def nothing_to_learn(n_samples: int) -> Valuation:
    """Two parties without any effect."""
    return replace(result_of_values([0.0, 0.0], names=["a", "b"], n_samples=n_samples), label_entropy=0.6)


def one_party() -> Valuation:
    """A single party that removes a third of the uncertainty."""
    return replace(result_of_game([0, 0.2], names=["a"]), label_entropy=0.6)
