"""The terms that all participants of a run have agreed on before the first message.

Public to everyone, servers included: names, sizes, switches. Nothing here is secret, and no participant
decides any of it alone; in a deployment the terms come from the manifest that everyone signed, and `run_id`
is its hash.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256

import msgspec

from fedvalue.errors import InputError
from fedvalue.protocol.privacy import GRAM_SHARES, Privacy, parse_epsilon
from fedvalue.protocol.release_grid import Grid
from fedvalue.protocol.share_rounding import share_step

COMPUTE = "compute"
"""Default name of the computation server."""
VALIDATE = "validate"
"""Default name of the validation server."""

ASSIST = "assist"
"""Default name of the assisting server (`gram` only)."""

RUN_ID_BYTES = 32
CHUNK_BYTES = 4 * 1024 * 1024
"""Largest bulk payload of one message: the fastest size in measurements that is still cheap to resend."""
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
MAX_FEATURES = 4096
MAX_CODEBOOK_CELLS = 2**27
"""Codebooks of all parties together; under `mirror` every party uploads that many, and servers hold them."""
_WHOLE = 1_000_000
"""Shares are counted in millionths."""


class ProtocolName(StrEnum):
    """The four ways to count without a common table."""

    SINGLE = "single"
    PAPER = "paper"
    MIRROR = "mirror"
    GRAM = "gram"


class Policy(StrEnum):
    """The output of `mirror`: values only, or the joint counts to the task party."""

    VALUATION = "valuation"
    COUNTS = "counts"


class Align(StrEnum):
    """How the parties come to hold the same sample ids."""

    EQUAL = "equal"
    INTERSECT = "intersect"


class ColumnView(StrEnum):
    """A valuation's view of a party: its columns, or one joint code."""

    FEATURES = "features"
    JOINT = "joint"


class NoiseKind(StrEnum):
    """How the number of adversarial samples per cell is chosen."""

    CONSTANT = "constant"
    TOTAL = "total"
    SHARE = "share"
    RANDOM = "random"


class Adversarial(msgspec.Struct, frozen=True):
    """The rule for n_r, the adversarial samples that the parties share and the servers do not know.

    Args:
        kind: `constant`: `amount` in every cell. `total`: `amount` in all cells together, spread
            evenly. `share`: `amount` millionths of all samples are adversarial (the paper's "90%"),
            which becomes a total when the number of samples is known. `random`: 1 to `amount` per
            cell, drawn from the parties' common secret.
        amount: See `kind`.
    """

    kind: NoiseKind = NoiseKind.CONSTANT
    amount: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.amount <= 2**32:
            raise InputError(f"n_r must be between 0 and 2^32, got {self.amount}")
        if self.kind is NoiseKind.RANDOM and self.amount < 1:
            raise InputError("a random n_r needs an upper bound of at least 1, got 0")
        if self.kind is NoiseKind.SHARE and self.amount >= _WHOLE:
            raise InputError(
                "the adversarial share must be at least 0% and below 100%, "
                f"got {100 * self.amount / _WHOLE:g}%"
            )

    @classmethod
    def parse(cls, n_r: int | float | str | Adversarial | None) -> Adversarial:
        """Read n_r as a user writes it.

        Args:
            n_r: `5` is five per cell; `"90%"` or `0.9` makes 90% of all samples adversarial;
                `"random:8"` draws 1 to 8 per cell; None is one per cell.

        Raises:
            InputError: None of these.
        """
        if isinstance(n_r, Adversarial):
            return n_r
        if n_r is None:
            return cls(NoiseKind.CONSTANT, 1)
        text = str(n_r).strip()
        try:
            if isinstance(n_r, float):
                kind, amount = NoiseKind.SHARE, round(n_r * _WHOLE)
            elif text.endswith("%"):
                kind, amount = NoiseKind.SHARE, round(float(text[:-1]) / 100.0 * _WHOLE)
            elif text.startswith("random:"):
                kind, amount = NoiseKind.RANDOM, int(text.removeprefix("random:"))
            else:
                kind, amount = NoiseKind.CONSTANT, int(text)
        except (ValueError, OverflowError):
            raise InputError(
                f"n_r must be a number per cell, a share like '90%' or 'random:8', got {text!r}"
            ) from None
        return cls(kind, amount)

    def counted(self, n_samples: int) -> Adversarial:
        """The rule with a share converted to a total."""
        if self.kind is not NoiseKind.SHARE:
            return self
        return Adversarial(NoiseKind.TOTAL, round(n_samples * self.amount / (_WHOLE - self.amount)))


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that every party's table must keep, so that no value is about a few persons.

    Args:
        min_samples: Fewest samples of a run.
        min_rows_per_code: A code range has at most n_samples / this many codes.
        min_cell: Fewest samples of a label, and of a code of X_t; not with an epsilon.
    """

    min_samples: int
    min_rows_per_code: int
    min_cell: int


class RunTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms that all participants agree on before any table is read.

    Args:
        run_id: 32 bytes, never used twice; in a deployment the hash of the signed manifest.
        protocol: `single`, `paper`, `mirror` or `gram`.
        task: Name of the task party.
        parties: Names of the data parties, in the order of the result.
        max_samples: Rows that every party brings (align `equal`), or may bring at most (`intersect`).
        align: Whether the parties bring the same ids, or first reduce their tables to the common ones.
        columns: `features`: parties hand out codebooks, which map their joint codes to the codes of their
            columns. `joint`: they do not.
        gates: Limits of the parties' tables; None for research.
        compute: Name of the computation server.
        validate: Name of the validation server.
        assist: Name of the assisting server (`gram`).
        policy: The output of `mirror`.
        q: Encryption ids per sample (`paper`).
        n_r: Rule for the adversarial samples (`paper`).
        h1: Totals and marginals are checked by the parties (`paper`; `mirror` always checks the total).
        h2: Tokens carry membership authenticators (`paper`).
        h3: The computation server states the sizes of all sets, and the parties check that a set
            depends on its owner's value alone (`paper`). Not with `pad`, which hides these sizes.
        by_coalition: Query the cells of every coalition, as the paper does, rather than those of the grand
            coalition alone (`paper`, `single`).
        pad: Pad each party's sets to one size with private dummies (`paper`, `single`).
        max_tokens: `paper` and `single` refuse a run that needs more.
        chunk_bytes: Largest bulk payload of one message.
        epsilon: Noise on the tables behind the values (`gram`, and `mirror` with policy `valuation`), see
            `privacy`; None for none.
        grid: Step of the numbers that `mirror` with policy `valuation` releases without noise, like "0.0001"
            (`release_grid`); None for no grid, which is for research.
        full_shares: Whether a data party gets every number about itself, instead of its learnable value and
            the total with their errors.
        exact_tables: `gram` without noise: every party gets the exact counts of all pairs of codes.
    """

    run_id: bytes
    protocol: ProtocolName
    task: str
    parties: tuple[str, ...]
    max_samples: int
    align: Align = Align.EQUAL
    columns: ColumnView = ColumnView.JOINT
    gates: Gates | None = None
    compute: str = COMPUTE
    validate: str = VALIDATE
    assist: str = ASSIST
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
    grid: str | None = None
    full_shares: bool = False
    exact_tables: bool = False

    def __post_init__(self) -> None:
        if len(self.run_id) != RUN_ID_BYTES:
            raise InputError(f"run_id must have {RUN_ID_BYTES} bytes, got {len(self.run_id)}")
        everyone = (*self.servers, *self.everybody)
        if len(set(everyone)) != len(everyone):
            raise InputError("participants must have different names")
        for name in everyone:
            if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
                raise InputError(f"a name must be 1 to {MAX_NAME} printable characters, got {name!r}")
        if not 1 <= len(self.parties) <= MAX_PARTIES:
            raise InputError(f"a run has 1 to {MAX_PARTIES} data parties, got {len(self.parties)}")
        if not 1 <= self.max_samples <= MAX_SAMPLES:
            raise InputError(f"the number of samples must be 1 to 2^40, got {self.max_samples}")
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
            with_noise = (ProtocolName.MIRROR, ProtocolName.GRAM)
            if self.protocol not in with_noise or self.policy is not Policy.VALUATION:
                raise InputError("epsilon needs protocol mirror or gram with policy valuation")
        is_gram = self.protocol is ProtocolName.GRAM
        if self.exact_tables and (not is_gram or self.epsilon is not None):
            raise InputError("exact_tables is for gram without an epsilon: counts are released without noise")
        if is_gram and self.epsilon is None and not self.exact_tables:
            raise InputError("gram needs an epsilon, or exact_tables to release counts without noise")
        Grid.of(self.grid)

    @property
    def release_grid(self) -> Grid:
        """The grid of released numbers; with noise there is none."""
        return Grid.of(self.grid if self.epsilon is None else None)

    def share_step(self, n_samples: int) -> Fraction | None:
        """Step to which a data party's numbers are rounded at random (`share_rounding`).

        None for research, with noise, and without a grid: the numbers are then those of the task party.
        """
        digits = self.release_grid.digits
        if self.gates is None or digits is None:
            return None
        return share_step(Fraction(1, 10**digits), n_samples)

    def promise(self, n_samples: int, n_columns: int) -> Privacy:
        """The promise of the agreed epsilon for these numbers of samples and feature columns."""
        shares = GRAM_SHARES if self.protocol is ProtocolName.GRAM else 1
        return Privacy(parse_epsilon(self.epsilon), n_samples, n_columns, shares)

    def digest(self) -> bytes:
        """SHA-256 of all terms; the transcript of the keys covers it."""
        return sha256(msgspec.msgpack.encode(msgspec.structs.asdict(self))).digest()

    def with_sizes(
        self,
        *,
        n_samples: int,
        n_task_codes: int,
        n_label_codes: int,
        n_codes: tuple[int, ...],
        features: tuple[tuple[int, ...], ...] = (),
    ) -> Settings:
        """The settings of the run, once every party has read its table.

        Raises:
            InputError: A size out of range.
        """
        agreed = {field: getattr(self, field) for field in RunTerms.__struct_fields__}
        agreed["n_r"] = self.n_r.counted(n_samples)
        return Settings(
            **agreed,
            n_samples=n_samples,
            n_task_codes=n_task_codes,
            n_label_codes=n_label_codes,
            n_codes=n_codes,
            features=features,
        )

    @property
    def everybody(self) -> tuple[str, ...]:
        """All parties, the task party first; this order determines the sign of pairwise masks."""
        return (self.task, *self.parties)

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers that take part: `single` has no validation server, `gram` has three."""
        if self.protocol is ProtocolName.SINGLE:
            return (self.compute,)
        if self.protocol is ProtocolName.GRAM:
            return (self.compute, self.validate, self.assist)
        return (self.compute, self.validate)


class Settings(RunTerms, frozen=True, kw_only=True):
    """The terms of a run, and the sizes of the parties' tables.

    Args:
        n_samples: Number of samples; every party has exactly these.
        n_task_codes: Size of the code range of X_t (1 when the task party has no features).
        n_label_codes: Size of the code range of Y.
        n_codes: Size of each data party's code range, in the order of `parties`.
        features: With columns `features`: sizes of the code ranges of the features of X_t, which may have
            none, and of every data party; empty otherwise.
    """

    n_samples: int
    n_task_codes: int
    n_label_codes: int
    n_codes: tuple[int, ...]
    features: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.n_codes) != len(self.parties):
            raise InputError(f"n_codes needs {len(self.parties)} sizes, got {len(self.n_codes)}")
        for who, size in self.sizes():
            if not 1 <= size <= MAX_CODES:
                raise InputError(f"{who}: the number of codes must be 1 to 2^24, got {size}")
        self._check_features()
        if not 1 <= self.n_samples <= self.max_samples:
            raise InputError(f"n_samples must be 1 to {self.max_samples}, got {self.n_samples}")

    def _check_features(self) -> None:
        expected = 0 if self.columns is ColumnView.JOINT else 1 + len(self.parties)
        if len(self.features) != expected:
            raise InputError(f"features needs {expected} lists of sizes, got {len(self.features)}")
        for sizes in self.features:
            if len(sizes) > MAX_FEATURES or any(not 1 <= size <= MAX_CODES for size in sizes):
                raise InputError(
                    f"a party has at most {MAX_FEATURES} features of at most 2^24 codes, got {len(sizes)}"
                )
        if any(not sizes for sizes in self.features[1:]):
            raise InputError("every data party needs at least one feature")
        rows = (self.n_task_codes, *self.n_codes)
        n_cells = sum(n * len(sizes) for n, sizes in zip(rows, self.features, strict=False))
        if n_cells > MAX_CODEBOOK_CELLS:
            raise InputError(
                f"the codebooks of all parties have {n_cells:.3g} cells, above the limit of "
                f'{MAX_CODEBOOK_CELLS:.3g}: use fewer columns or bins, or columns = "joint"',
                code="E_BUDGET",
            )

    @property
    def privacy(self) -> Privacy | None:
        """The promise of `epsilon`; None without noise."""
        return None if self.epsilon is None else self.promise(self.n_samples, self.n_columns)

    @property
    def n_columns(self) -> int:
        """Feature columns of all parties; a party without a codebook has one."""
        if self.features:
            return sum(map(len, self.features))
        return len(self.parties) + (self.n_task_codes > 1)

    def sizes(self) -> list[tuple[str, int]]:
        """(name, size of the code range) of X_t, Y and every data party."""
        task = [(f"{self.task} (features)", self.n_task_codes), (f"{self.task} (label)", self.n_label_codes)]
        return task + list(zip(self.parties, self.n_codes, strict=True))

    @property
    def n_cells(self) -> int:
        """Number of cells of the grand coalition's joint table, the product of all code ranges."""
        return math.prod(size for _, size in self.sizes())
