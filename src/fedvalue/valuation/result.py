"""The result of a valuation: plain data, its JSON form and its tables.

Nothing is computed here. A statistic that was not computed is absent (None, no JSON key), never
zero. Values are in nats.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedvalue.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "fedvalue.result/1"


@dataclass(frozen=True, slots=True)
class PartyValue:
    """What one data party's data is worth.

    Args:
        name: The party.
        value: Shapley-CMI.
        share: value / total (0 when the total is 0).
        alone: val({d}), what the party brings when it comes alone.
        last: val(all) - val(all without d), what is lost without it.
        n_codes: Number of distinct codes of the party.
        se_sampling: Standard error of the permutation sampling; 0 when exact.
        se_data: Standard error that comes from having n samples and no more.
        learnable: The part that can be learned from n samples rather than memorised.
        se_learnable: Standard error of `learnable` where that was sampled; 0 when exact.
        flags: Warnings about this party, as short stable names.
        noise_scale: Scale of the Laplace noise in `value`, where the run agreed on an epsilon. Then `value`
            is all that is known: what would have to be released without noise is absent.
    """

    name: str
    value: float
    share: float | None = None
    alone: float | None = None
    last: float | None = None
    n_codes: int | None = None
    se_sampling: float | None = 0.0
    se_data: float | None = None
    learnable: float | None = None
    se_learnable: float | None = None
    flags: tuple[str, ...] = ()
    noise_scale: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half of the 95% interval: of both errors, or of the noise alone; None until one is known."""
        if self.noise_scale is not None:
            return math.log(20) * self.noise_scale  # P(|Laplace| > scale ln 20) = 1/20
        if self.se_data is None:
            return None
        error: float = ((self.se_sampling or 0.0) ** 2 + self.se_data**2) ** 0.5
        return 1.959963984540054 * error

    @property
    def interval(self) -> tuple[float, float] | None:
        """95% interval of the value; with noise, where the value on these samples lies without it."""
        half = self.half_width
        return None if half is None else (self.value - half, self.value + half)


@dataclass(frozen=True, slots=True)
class PrivacyStatement:
    """What noise on the values promises. None of the fields may be quoted without the others.

    Args:
        epsilon: Every set of results is at most exp(epsilon) times as likely with one table as with another
            that differs from it as `adjacency` says.
        delta: The exception to that; 0.
        adjacency: In what the two tables differ.
        observer: Against whom.
        noise_scale: Scale of the Laplace noise on every value, in nats.
    """

    epsilon: float
    delta: float
    adjacency: str
    observer: str
    noise_scale: float


@dataclass(frozen=True, slots=True)
class Valuation:
    """The values of all data parties, and how they were computed.

    `parties` holds everything known about each party; `values` is the short form.
    """

    parties: tuple[PartyValue, ...]
    total: float
    label_entropy: float | None
    n_samples: int
    method: str
    n_permutations: int | None = None
    seed: int | None = None
    bins: int | None = None
    method_reason: str = ""
    learnable_total: float | None = None
    interactions: tuple[tuple[float, ...], ...] | None = None
    coalitions: Mapping[str, tuple[float, ...]] | None = field(default=None, repr=False)
    protocol: str | None = None
    run_id: str | None = None
    privacy: PrivacyStatement | None = None
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def values(self) -> dict[str, float]:
        """Shapley-CMI by party, in nats."""
        return {party.name: party.value for party in self.parties}

    def __getitem__(self, name: str) -> PartyValue:
        """The party of that name."""
        for party in self.parties:
            if party.name == name:
                return party
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready data; what was not computed has no key."""
        head: dict[str, Any] = {"schema": SCHEMA, "unit": "nats"}
        body = {
            key: getattr(self, key)
            for key in (
                "n_samples", "method", "n_permutations", "seed", "bins", "method_reason",
                "total", "label_entropy", "learnable_total", "protocol", "run_id",
            )
        }  # fmt: skip
        rows = []
        for party in self.parties:
            row = {key: item for key, item in asdict(party).items() if item is not None}
            row["flags"] = list(party.flags)
            if party.noise_scale is not None:
                del row["flags"]  # not looked at, which is not the same as none
            if party.interval is not None:
                row["interval"] = list(party.interval)
            rows.append(row)
        keep = ("n_permutations", "seed", "bins")  # part of the schema even when null
        head |= {key: item for key, item in body.items() if item is not None or key in keep}
        head["parties"] = rows
        if self.interactions is not None:
            head["interactions"] = [list(row) for row in self.interactions]
        if self.coalitions is not None:
            head["coalitions"] = {key: list(item) for key, item in self.coalitions.items()}
        if self.privacy is not None:
            head["privacy"] = asdict(self.privacy)
        if self.details:
            head["details"] = dict(self.details)
        return head

    def to_json(self, path: str | Path | None = None) -> str:
        """The result as JSON text, also written to `path` when one is given.

        Raises:
            InputError: The file cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        if path is not None:
            try:
                Path(path).write_text(text, encoding="utf-8")
            except OSError as error:
                raise InputError(f"cannot write {path}: {error.strerror}") from error
        return text

    @classmethod
    def from_dict(cls, data: Any) -> Valuation:
        """The inverse of `to_dict`.

        Raises:
            InputError: Another schema, or a field that is missing or of the wrong kind.
        """
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
            raise InputError(f"expected a result of schema {SCHEMA!r}, got {found!r}")
        try:
            parties = tuple(
                PartyValue(
                    **({"se_sampling": None} if "noise_scale" in row else {})
                    | {k: v for k, v in row.items() if k in PartyValue.__slots__ and k != "flags"},
                    flags=tuple(row.get("flags", ())),
                )
                for row in data["parties"]
            )
            plain = {k: data[k] for k in data if k in cls.__slots__ and k not in _NESTED}
            plain.setdefault("label_entropy", None)
            privacy = data.get("privacy")
            interactions = data.get("interactions")
            coalitions = data.get("coalitions")
            result = cls(
                parties=parties,
                interactions=None if interactions is None else tuple(tuple(r) for r in interactions),
                coalitions=None if coalitions is None else {k: tuple(v) for k, v in coalitions.items()},
                privacy=None if privacy is None else PrivacyStatement(**privacy),
                details=dict(data.get("details", {})),
                **plain,
            )
            _check_numbers(result)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a complete result of schema {SCHEMA!r}: {error}") from error
        return result

    @classmethod
    def from_json(cls, path: str | Path) -> Valuation:
        """Read a result file.

        Raises:
            InputError: The file cannot be read or does not hold a result.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON: {error}") from error
        return cls.from_dict(data)

    def to_frame(self) -> pd.DataFrame:
        """One row per party, as a pandas DataFrame indexed by party name."""
        import pandas as pd

        rows = [{k: v for k, v in asdict(p).items() if v is not None} for p in self.parties]
        return pd.DataFrame(rows).set_index("name")

    @property
    def plot(self) -> Any:
        """Plots of this result: `v.plot.values(ax=ax)` and others (see `fedvalue.reports.plots`)."""
        from fedvalue.reports import plots

        return plots.Plots(self)

    def to_html(self, path: str | Path) -> Path:
        """Write the report, one self-contained HTML file, and return its path."""
        from fedvalue.reports import html

        return html.write(self, path)

    def _repr_html_(self) -> str:
        from fedvalue.reports import html

        return html.notebook(self)


_NESTED = ("parties", "interactions", "coalitions", "privacy", "details")


def _check_numbers(result: Valuation) -> None:
    # With noise, everything but values and total is absent; without it nothing of this may be.
    exact = result.privacy is None
    for key in ("total", "label_entropy") if exact else ("total",):
        float(getattr(result, key))
    for party in result.parties:
        if not isinstance(party.name, str):
            raise TypeError("a party's name must be text")
        for key in ("value", "share", "alone", "last", "n_codes") if exact else ("value", "noise_scale"):
            if not isinstance(getattr(party, key), int | float):
                raise TypeError(f"{key} of party {party.name!r} must be a number")
