"""Bytes of a data file -> feature columns and labels, one reader per layout.

Readers are pure: they know nothing of folders or the network. Whatever file a data set came from,
it ends with the same feature names, values and labels as in the common layout (`id`, features,
`label`), which `fingerprint` proves.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Feature values, shape (n_samples, n_features), and one label per row as text."""

    names: tuple[str, ...]
    values: Floats
    labels: NDArray[np.str_]


def fingerprint(columns: Columns) -> str:
    """SHA-256 over the values (float64, row by row) and the labels.

    The same for every copy with the same numbers, however they are written down, so a download and
    scikit-learn's copy can be checked as strictly as the known file.
    """
    digest = hashlib.sha256()
    digest.update(np.array(columns.values.shape, dtype="<i8").tobytes())
    digest.update(np.ascontiguousarray(columns.values, dtype="<f8").tobytes())
    digest.update("\n".join(columns.labels.tolist()).encode())
    return digest.hexdigest()


def common_layout(raw: bytes) -> Columns:
    """Read a file of the common layout: a header, then id, features, label."""
    header, *rows = _cells(raw)
    if header[:1] != ["id"] or header[-1:] != ["label"]:
        raise InputError("expected the columns id, features, label")
    return _columns(header[1:-1], [row[1:-1] for row in rows], [row[-1] for row in rows])


def write_common_layout(name: str, columns: Columns) -> bytes:
    """The file that `common_layout` reads back to the same values, for the user's cache."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", *columns.names, "label"])
    width = len(str(len(columns.labels)))
    for i, (row, label) in enumerate(zip(columns.values.tolist(), columns.labels.tolist(), strict=True), 1):
        writer.writerow([f"{name}-{i:0{max(width, 4)}d}", *(repr(cell) for cell in row), label])
    return out.getvalue().encode()


def uci_wine(files: Sequence[bytes]) -> Columns:
    """UCI's wine.data: no header, the cultivar first."""
    rows = _cells(files[0])
    return _columns(WINE_NAMES, [row[1:] for row in rows], [row[0] for row in rows])


def uci_parkinsons(files: Sequence[bytes]) -> Columns:
    """UCI's parkinsons.data: a header, `name` first, the label `status` in the middle."""
    header, *rows = _cells(files[0])
    label = header.index("status")
    keep = [k for k in range(len(header)) if k not in (0, label)]
    return _columns(
        [header[k] for k in keep], [[row[k] for k in keep] for row in rows], [row[label] for row in rows]
    )


def uci_spect(files: Sequence[bytes]) -> Columns:
    """UCI's SPECT.train then SPECT.test: no header, the diagnosis first."""
    rows = [row for raw in files for row in _cells(raw)]
    names = [f"F{k}" for k in range(1, len(rows[0]))]
    return _columns(names, [row[1:] for row in rows], [row[0] for row in rows])


def uci_breast(files: Sequence[bytes]) -> Columns:
    """UCI's wdbc.data: no header, id, then M (malignant, 1) or B (benign, 0)."""
    rows = _cells(files[0])
    return _columns(BREAST_NAMES, [row[2:] for row in rows], [str(int(row[1] == "M")) for row in rows])


def uci_credit(files: Sequence[bytes]) -> Columns:
    """UCI's data.csv of Default of Credit Card Clients: ID, 23 features, the label last."""
    _, *rows = _cells(files[0])
    return _columns(CREDIT_NAMES, [row[1:-1] for row in rows], [row[-1] for row in rows])


def kaggle_music(raw: bytes) -> Columns:
    """Kaggle's features_30_sec.csv. `filename` spells the genre and `length` is not in the paper's 57."""
    header, *rows = _cells(raw)
    label = header.index("label")
    keep = [k for k, name in enumerate(header) if name not in ("filename", "length", "label")]
    return _columns(
        [header[k] for k in keep], [[row[k] for k in keep] for row in rows], [row[label] for row in rows]
    )


def from_sklearn(name: str) -> Columns:
    """Wine and Breast as scikit-learn ships them, with the labels of the common layout.

    scikit-learn counts the cultivars from 0 and codes benign as 1.
    """
    from sklearn import datasets

    bunch = {"wine": datasets.load_wine, "breast": datasets.load_breast_cancer}[name]()
    target = bunch.target + 1 if name == "wine" else 1 - bunch.target
    names = WINE_NAMES if name == "wine" else BREAST_NAMES
    return Columns(tuple(names), np.asarray(bunch.data, dtype=np.float64), target.astype(np.str_))


def _cells(raw: bytes) -> list[list[str]]:
    """The non-empty lines of a comma-separated file."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if len(rows) < 2:
        raise InputError(f"expected a table with rows, got {len(rows)} line(s)")
    return rows


def _columns(names: Sequence[str], rows: list[list[str]], labels: list[str]) -> Columns:
    widths = {len(row) for row in rows}
    if widths != {len(names)}:
        raise InputError(f"expected {len(names)} features in every row, got {sorted(widths)}")
    try:
        values = np.array(rows, dtype=np.float64)
    except ValueError as error:
        raise InputError(f"a feature is not a number: {error}") from error
    return Columns(tuple(names), values, np.array([label.strip() for label in labels], dtype=np.str_))


WINE_NAMES = (
    "alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids",
    "nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue",
    "od280/od315_of_diluted_wines", "proline",
)  # fmt: skip

_BREAST_MEASURES = (
    "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity",
    "concave points", "symmetry", "fractal dimension",
)  # fmt: skip
BREAST_NAMES = (
    *(f"mean {measure}" for measure in _BREAST_MEASURES),
    *(f"{measure} error" for measure in _BREAST_MEASURES),
    *(f"worst {measure}" for measure in _BREAST_MEASURES),
)

CREDIT_NAMES = (
    "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE",
    *(f"PAY_{k}" for k in (0, 2, 3, 4, 5, 6)),
    *(f"BILL_AMT{k}" for k in range(1, 7)),
    *(f"PAY_AMT{k}" for k in range(1, 7)),
)  # fmt: skip

DOWNLOADED: dict[str, Callable[[Sequence[bytes]], Columns]] = {
    "wine": uci_wine,
    "parkinsons": uci_parkinsons,
    "spect": uci_spect,
    "breast": uci_breast,
    "credit": uci_credit,
}
