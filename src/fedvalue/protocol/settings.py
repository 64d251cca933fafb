"""What all participants of a run have agreed on before the first message.

Public to everyone, servers included: names, sizes, switches. Nothing secret is here, and nothing
here may be decided by one participant alone; in a deployment these numbers come from the manifest
that everyone signed, and `run_id` is its hash.
"""

from __future__ import annotations

import math
from enum import StrEnum
from hashlib import sha256

import msgspec

from fedvalue.errors import InputError
from fedvalue.protocol.privacy import Privacy, parse_epsilon

COMPUTE = "compute"
"""Name of the computation server where nobody gave it another."""
VALIDATE = "validate"
"""Name of the validation server where nobody gave it another."""

RUN_ID_BYTES = 32
CHUNK_BYTES = 4 * 1024 * 1024
"""Largest bulk payload of one message (protocol.md 4.6: unary calls of 4 MiB)."""
MAX_TOKENS = 200_000_000
"""Default limit of `paper` and `single`: 3 to 5 GB on the wire. Above it a run is refused."""
MAX_Q = 64
MAX_PARTIES = 256
MAX_NAME = 200
MAX_COALITION_PARTIES = 16
"""Coalition by coalition means 2^parties tables."""
MAX_CODES = 2**24
"""Largest code range: the parties permute it in memory."""
MAX_SAMPLES = 2**40


class ProtocolName(StrEnum):
    """The three ways to count without showing rows."""

    SINGLE = "single"
    PAPER = "paper"
    MIRROR = "mirror"


class Policy(StrEnum):
    """What `mirror` releases: values only, or the joint counts to the task party."""

    VALUATION = "valuation"
    COUNTS = "counts"


class NoiseKind(StrEnum):
    """How the number of adversarial samples per cell is chosen."""

    CONSTANT = "constant"
    TOTAL = "total"
    RANDOM = "random"


class Adversarial(msgspec.Struct, frozen=True):
    """The rule for n_r, the adversarial samples that the parties share and the servers do not know.

    Args:
        kind: `constant`: `amount` in every cell. `total`: `amount` in all cells together, spread
            evenly (the paper's "90% of the samples"). `random`: 1 to `amount` per cell, drawn from
            the parties' common secret.
        amount: See `kind`.
    """

    kind: NoiseKind = NoiseKind.CONSTANT
    amount: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.amount <= 2**32:
            raise InputError(f"n_r must be between 0 and 2^32, got {self.amount}")
        if self.kind is NoiseKind.RANDOM and self.amount < 1:
            raise InputError("a random n_r needs an upper end of at least 1, got 0")

    @classmethod
    def parse(cls, n_r: int | float | str | Adversarial | None, n_samples: int) -> Adversarial:
        """Read n_r as a user writes it.

        Args:
            n_r: `5` is five per cell; `"90%"` or `0.9` makes 90% of all samples adversarial;
                `"random:8"` draws 1 to 8 per cell; None is one per cell.
            n_samples: Number of real samples, to turn a share into a number.

        Raises:
            InputError: None of these.
        """
        if isinstance(n_r, Adversarial):
            return n_r
        if n_r is None:
            return cls(NoiseKind.CONSTANT, 1)
        if isinstance(n_r, float):
            return cls(NoiseKind.TOTAL, _share(n_r, n_samples))
        text = str(n_r).strip()
        try:
            if text.endswith("%"):
                return cls(NoiseKind.TOTAL, _share(float(text[:-1]) / 100.0, n_samples))
            if text.startswith("random:"):
                return cls(NoiseKind.RANDOM, int(text.removeprefix("random:")))
            return cls(NoiseKind.CONSTANT, int(text))
        except ValueError:
            raise InputError(
                f"n_r must be a number per cell, a share like '90%' or 'random:8', got {text!r}"
            ) from None


def _share(share: float, n_samples: int) -> int:
    if not 0.0 <= share < 1.0:
        raise InputError(f"the adversarial share must be at least 0% and below 100%, got {share:.0%}")
    return round(n_samples * share / (1.0 - share))


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The agreed parameters of one run.

    Args:
        run_id: 32 bytes, never used twice; in a deployment the hash of the signed manifest.
        protocol: `single`, `paper` or `mirror`.
        task: Name of the task party.
        parties: Names of the data parties, in the order of the result.
        n_samples: Number of samples; every party must bring exactly these.
        n_task_codes: Size of the code range of X_t (1 when the task party has no features).
        n_label_codes: Size of the code range of Y.
        n_codes: Size of each data party's code range, in the order of `parties`.
        compute: Name of the computation server.
        validate: Name of the validation server.
        policy: What `mirror` releases.
        q: Encryption ids per sample (`paper`).
        n_r: Rule for the adversarial samples (`paper`).
        h1: Totals and marginals are checked by the parties (`paper`; `mirror` always checks the total).
        h2: Tokens carry membership authenticators (`paper`).
        h3: The computation server states the sizes of all sets, and the parties check that a set
            depends on its owner's value alone (`paper`). Not with `pad`, which hides these sizes.
        by_coalition: Ask every coalition's cells, as the paper has it, rather than the grand
            coalition's alone (`paper`, `single`).
        pad: Pad each party's sets to one size with private dummies (`paper`, `single`).
        max_tokens: `paper` and `single` refuse a run that needs more.
        chunk_bytes: Largest bulk payload of one message.
        epsilon: Noise on the values (`mirror` with policy `valuation`), see `privacy`; None for exact ones.
    """

    run_id: bytes
    protocol: ProtocolName
    task: str
    parties: tuple[str, ...]
    n_samples: int
    n_task_codes: int
    n_label_codes: int
    n_codes: tuple[int, ...]
    compute: str = COMPUTE
    validate: str = VALIDATE
    policy: Policy = Policy.VALUATION
    q: int = 3
    n_r: Adversarial = Adversarial()
    h1: bool = True
    h2: bool = True
    h3: bool = True
    by_coalition: bool = False
    pad: bool = False
    max_tokens: int = MAX_TOKENS
    chunk_bytes: int = CHUNK_BYTES
    epsilon: str | None = None

    def __post_init__(self) -> None:
        if len(self.run_id) != RUN_ID_BYTES:
            raise InputError(f"run_id must have {RUN_ID_BYTES} bytes, got {len(self.run_id)}")
        everyone = (self.compute, self.validate, *self.everybody)
        if len(set(everyone)) != len(everyone):
            raise InputError("participants must have different names")
        for name in everyone:
            if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
                raise InputError(f"a name must be 1 to {MAX_NAME} printable characters, got {name!r}")
        if not 1 <= len(self.parties) <= MAX_PARTIES:
            raise InputError(f"1 to {MAX_PARTIES} data parties are possible, got {len(self.parties)}")
        if len(self.n_codes) != len(self.parties):
            raise InputError(f"expected {len(self.parties)} sizes in n_codes, got {len(self.n_codes)}")
        for who, size in self.sizes():
            if not 1 <= size <= MAX_CODES:
                raise InputError(f"{who}: the number of codes must be 1 to 2^24, got {size}")
        if not 1 <= self.n_samples <= MAX_SAMPLES:
            raise InputError(f"n_samples must be 1 to 2^40, got {self.n_samples}")
        self._check_options()

    def _check_options(self) -> None:
        if self.by_coalition and len(self.parties) > MAX_COALITION_PARTIES:
            raise InputError(
                f"by_coalition is for at most {MAX_COALITION_PARTIES} data parties, got {len(self.parties)}"
            )
        if self.pad and self.h3 and self.protocol is ProtocolName.PAPER:
            raise InputError(
                "pad hides the set sizes that the hardened paper protocol checks (H3): use pad with "
                "harden=False, or harden without pad"
            )
        if not 1 <= self.q <= MAX_Q:
            raise InputError(f"q must be 1 to {MAX_Q}, got {self.q}")
        if not 1024 <= self.chunk_bytes <= CHUNK_BYTES:
            raise InputError(f"chunk_bytes must be 1024 to {CHUNK_BYTES}, got {self.chunk_bytes}")
        if self.epsilon is not None:
            parse_epsilon(self.epsilon)
            if self.protocol is not ProtocolName.MIRROR or self.policy is not Policy.VALUATION:
                raise InputError("epsilon needs protocol mirror with policy valuation")

    @property
    def privacy(self) -> Privacy | None:
        """The promise that goes with `epsilon`."""
        if self.epsilon is None:
            return None
        return Privacy(parse_epsilon(self.epsilon), self.n_samples, len(self.parties))

    def digest(self) -> bytes:
        """SHA-256 of all settings: parties that agree on a transcript agree on these."""
        agreed = msgspec.structs.asdict(self)
        if self.epsilon is None:
            del agreed["epsilon"]  # a run without noise has the digest that it always had
        return sha256(msgspec.msgpack.encode(agreed)).digest()

    @property
    def everybody(self) -> tuple[str, ...]:
        """All parties, the task party first; this order gives pairwise terms their sign."""
        return (self.task, *self.parties)

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers that take part: `single` has no validation server."""
        return (self.compute,) if self.protocol is ProtocolName.SINGLE else (self.compute, self.validate)

    def sizes(self) -> list[tuple[str, int]]:
        """(who, size of its code range) of X_t, Y and every data party."""
        task = [(f"{self.task} (features)", self.n_task_codes), (f"{self.task} (label)", self.n_label_codes)]
        return task + list(zip(self.parties, self.n_codes, strict=True))

    @property
    def n_cells(self) -> int:
        """Number of cells of the grand coalition's joint table, the product of all code ranges."""
        return math.prod(size for _, size in self.sizes())
