"""The protocols that a run in this process can use, with their options.

`fedvalue.value(..., protocol="mirror")` takes a protocol's defaults, `protocol=Mirror(policy="counts")`
changes them. A misspelled option is a TypeError of the class that does not have it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TypeAlias

from fedvalue.errors import InputError
from fedvalue.protocol.privacy import parse_epsilon, spell_epsilon
from fedvalue.protocol.release_grid import Grid
from fedvalue.protocol.settings import MAX_Q, MAX_TOKENS, Adversarial, Policy
from fedvalue.protocol.vpsic import VpsicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """The paper's protocol with one server, which is trusted to count.

    Args:
        by_coalition: Ask every coalition's cells rather than the grand coalition's.
        pad: Pad all sets of a party to one size.
        max_tokens: Refuse a run that needs more.
    """

    by_coalition: bool = False
    pad: bool = False
    max_tokens: int = MAX_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """The paper's protocol with two servers.

    Args:
        q: Encryption ids per sample.
        n_r: Adversarial samples: a number per cell, a share of all samples ("90%" or 0.9), or "random:8" for
            1 to 8 per cell; None is one per cell.
        harden: Checks H1, H2 and H3, which the published protocol lacks.
        by_coalition: Ask every coalition's cells rather than the grand coalition's, and compare them. None
            does so with `harden`: without it one data party can take another's value. It costs up to
            2^parties times the tokens and is for at most 16 data parties.
        pad: Pad all sets of a party to one size; only without `harden`, because H3 needs the sizes.
        max_tokens: Refuse a run that needs more.
    """

    q: int = 3
    n_r: int | float | str | None = None
    harden: bool = True
    by_coalition: bool | None = None
    pad: bool = False
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        if not 1 <= self.q <= MAX_Q:
            raise InputError(f"q must be 1 to {MAX_Q}, got {self.q}")
        Adversarial.parse(self.n_r)
        if self.by_coalition is None:
            object.__setattr__(self, "by_coalition", self.harden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """Masked rows to two servers, whose answers must agree.

    Args:
        policy: "valuation": parties see values, never counts. "counts": the task party sees the counts.
        epsilon: Add noise to the values (policy `valuation`), like "0.5". A rehearsal: there is no ledger
            here, and the caller has the tables.
        grid: Round released numbers to this step, like "0.0001", as a manifest does; None for no grid.
    """

    policy: str = "valuation"
    epsilon: str | float | None = None
    grid: str | None = None

    def __post_init__(self) -> None:
        if self.policy not in tuple(Policy):
            raise InputError(f"policy must be {' or '.join(Policy)}, got {self.policy!r}")
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", _spelled(self.epsilon))
        Grid.of(self.grid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vpsic:
    """The journal version's protocol with one server, for comparison; a cheating server can pass its checks.

    Args:
        rounds: Number of rounds, each of which counts everything again, τ.
        least_q: Smallest number of copies of an id that a round may draw.
        most_q: Largest number of copies.
        artificial: Most artificial ids of a round, as a fraction of the samples.
        harden: Also check the total and every party's marginals.
    """

    rounds: int = 2
    least_q: int = 2
    most_q: int = 8
    artificial: float = 0.5
    harden: bool = True

    def __post_init__(self) -> None:
        _ = self.settings

    @property
    def settings(self) -> VpsicSettings:
        """The terms that the parties agree on."""
        return VpsicSettings(self.rounds, self.least_q, self.most_q, self.artificial, self.harden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gram:
    """Shares of one-hot columns to three servers; no server sees a row, and parties see noisy sums.

    Args:
        epsilon: Privacy parameter of the noise on all counts, like "0.5".
        exact_tables: No noise: every party gets the exact counts of all pairs of codes. For tests, and for
            consortia that sign for it.
    """

    epsilon: str | float | None = "1"
    exact_tables: bool = False

    def __post_init__(self) -> None:
        if self.exact_tables:
            object.__setattr__(self, "epsilon", None)
            return
        if self.epsilon is None:
            raise InputError("gram needs an epsilon, or exact_tables=True to release counts without noise")
        object.__setattr__(self, "epsilon", _spelled(self.epsilon))


def _spelled(epsilon: str | float) -> str:
    spelled = epsilon if isinstance(epsilon, str) else spell_epsilon(str(epsilon))
    parse_epsilon(spelled)
    return spelled


ProtocolOptions: TypeAlias = Single | Paper | Mirror | Gram | Vpsic

PROTOCOLS: dict[str, type[ProtocolOptions]] = {
    "single": Single,
    "paper": Paper,
    "mirror": Mirror,
    "gram": Gram,
    "vpsic": Vpsic,
}


def options_of(protocol: str | ProtocolOptions) -> ProtocolOptions:
    """A protocol by its name or with its options.

    Raises:
        InputError: An unknown protocol.
    """
    if isinstance(protocol, Single | Paper | Mirror | Gram | Vpsic):
        return protocol
    if protocol not in PROTOCOLS:
        close = get_close_matches(str(protocol), PROTOCOLS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"protocol must be {', '.join(PROTOCOLS)}, got {protocol!r}{hint}")
    return PROTOCOLS[protocol]()


def make_options(protocol: str, **options: object) -> ProtocolOptions:
    """A protocol with options by name, as a user types them.

    Raises:
        InputError: An unknown protocol, or an option that it does not have.
    """
    kind = type(options_of(protocol))
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            raise InputError(
                f"protocol {protocol!r} has no option {name!r}; its options are {', '.join(known)}"
            )
    return kind(**options)  # type: ignore[arg-type]


def name_of(options: ProtocolOptions) -> str:
    """The protocol's name."""
    return next(name for name, kind in PROTOCOLS.items() if kind is type(options))
