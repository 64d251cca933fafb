"""Bytes of a data file -> feature columns and labels, one reader per layout.

Readers are pure: they know nothing of folders or the network. All files of a data set give the same feature
names, values and labels as the common layout (`id`, features, `label`), which `fingerprint` proves.
"""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedvalue.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Feature values, shape (n_samples, n_features), and one label per row as text.

    Args:
        names: Of the features.
        values: Numbers; of a text feature the place in its categories. NaN where a cell is empty.
        labels: One per row.
        categories: The distinct texts of each text feature, in code point order.
    """

    names: tuple[str, ...]
    values: Floats
    labels: NDArray[np.str_]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def feature(self, name: str) -> Floats | NDArray[np.str_]:
        """One feature: numbers with NaN, or texts with "", where a cell is empty."""
        values = self.values[:, self.names.index(name)]
        if name not in self.categories:
            return values.copy()
        texts = np.array([*self.categories[name], ""], dtype=np.str_)
        return np.asarray(texts[np.where(np.isnan(values), len(texts) - 1, values).astype(np.int64)])


def fingerprint(columns: Columns) -> str:
    """SHA-256 over the values (float64, row by row) and the labels.

    The same for every copy with the same numbers, in any notation, so a download and scikit-learn's copy are
    checked as strictly as the known file.
    """
    digest = hashlib.sha256()
    digest.update(np.array(columns.values.shape, dtype="<i8").tobytes())
    digest.update(np.ascontiguousarray(columns.values, dtype="<f8").tobytes())
    digest.update("\n".join(columns.labels.tolist()).encode())
    for name in columns.names:
        if name in columns.categories:
            digest.update("\n".join(("", name, *columns.categories[name])).encode())
    return digest.hexdigest()


def common_layout(raw: bytes, text: Collection[str] = ()) -> Columns:
    """Read a file of the common layout: a header, then id, features, label.

    If some features are text, cells may be empty.
    """
    header, *rows = _cells(raw)
    if header[:1] != ["id"] or header[-1:] != ["label"]:
        raise InputError("expected the columns id, features, label")
    return _columns(header[1:-1], [row[1:-1] for row in rows], [row[-1] for row in rows], text)


def write_common_layout(name: str, columns: Columns) -> bytes:
    """The file that `common_layout` reads back to the same values, for the user's cache."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", *columns.names, "label"])
    width = len(str(len(columns.labels)))
    features = [[_written(cell) for cell in columns.feature(feature).tolist()] for feature in columns.names]
    for i, (row, label) in enumerate(
        zip(zip(*features, strict=True), columns.labels.tolist(), strict=True), 1
    ):
        writer.writerow([f"{name}-{i:0{max(width, 4)}d}", *row, label])
    return out.getvalue().encode()


def _written(cell: float | str) -> str:
    if isinstance(cell, str):
        return cell
    return "" if np.isnan(cell) else repr(cell)


def by_position(
    files: Sequence[bytes],
    *,
    names: Sequence[str],
    label: int,
    features: slice,
    header: bool = False,
    labels: Mapping[str, str] | None = None,
) -> Columns:
    """Read files, one after the other, whose columns are known by their position.

    `labels` maps labels of the file to those of the common layout, where they differ.
    """
    rows = [row for raw in files for row in _cells(raw)][int(header) :]
    renamed = [(labels or {}).get(row[label], row[label]) for row in rows]
    return _columns(names, [row[features] for row in rows], renamed)


def by_name(raw: bytes, *, label: str, drop: Collection[str]) -> Columns:
    """Read a file with a header; the columns in `drop` are not features."""
    header, *rows = _cells(raw)
    at = header.index(label)
    keep = [k for k, name in enumerate(header) if name not in (label, *drop)]
    return _columns(
        [header[k] for k in keep], [[row[k] for k in keep] for row in rows], [row[at] for row in rows]
    )


def kaggle_music(raw: bytes) -> Columns:
    """Kaggle's features_30_sec.csv. `filename` spells the genre and `length` is not in the paper's 57."""
    return by_name(raw, label="label", drop=("filename", "length"))


def uci_adult(files: Sequence[bytes]) -> Columns:
    """UCI's adult.data: no header, the label last, "?" where a value is missing."""
    rows = [[cell.strip().replace("?", "") for cell in row] for row in _cells(files[0])]
    text = [name for name in ADULT_NAMES if name not in _ADULT_NUMBERS]
    return _columns(ADULT_NAMES, [row[:-1] for row in rows], [row[-1] for row in rows], text)


def uci_bank(files: Sequence[bytes]) -> Columns:
    """UCI's bank-additional.zip: semicolons, a header, label yes or no, "unknown" for a missing value."""
    try:
        with zipfile.ZipFile(io.BytesIO(files[0])) as archive:
            raw = archive.read("bank-additional/bank-additional-full.csv")
    except (zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"expected an archive with bank-additional-full.csv: {error}") from error
    header, *rows = _cells(raw, delimiter=";")
    names = [name.replace(".", "_") for name in header]
    keep = [names.index(name) for name in BANK_NAMES]
    return _columns(
        BANK_NAMES,
        [["" if row[k] == "unknown" else row[k] for k in keep] for row in rows],
        [str(int(row[names.index("y")] == "yes")) for row in rows],
        BANK_NAMES[1:7],
    )


def from_sklearn(name: str) -> Columns:
    """Wine, Breast and Digits as scikit-learn ships them, with the labels of the common layout.

    scikit-learn counts the cultivars from 0 and codes benign as 1.
    """
    from sklearn import datasets

    load, names, first, step = {
        "wine": (datasets.load_wine, WINE_NAMES, 1, 1),
        "breast": (datasets.load_breast_cancer, BREAST_NAMES, 1, -1),
        "digits": (datasets.load_digits, DIGITS_NAMES, 0, 1),
    }[name]
    bunch = load()
    target = first + step * bunch.target
    return Columns(tuple(names), np.asarray(bunch.data, dtype=np.float64), target.astype(np.str_))


def _cells(raw: bytes, delimiter: str = ",") -> list[list[str]]:
    """The non-empty lines of a separated file."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    if len(rows) < 2:
        raise InputError(f"expected a table with rows, got {len(rows)} line(s)")
    return rows


def _columns(
    names: Sequence[str], rows: list[list[str]], labels: list[str], text: Collection[str] = ()
) -> Columns:
    widths = {len(row) for row in rows}
    if widths != {len(names)}:
        raise InputError(f"expected {len(names)} features in every row, got {sorted(widths)}")
    categories: dict[str, tuple[str, ...]] = {}
    values = np.empty((len(rows), len(names)))
    for k, (name, cells) in enumerate(zip(names, zip(*rows, strict=True), strict=True)):
        if name in text:
            categories[name] = tuple(sorted(set(cells) - {""}))
            place = {"": np.nan, **{kind: number for number, kind in enumerate(categories[name])}}
            values[:, k] = [place[cell] for cell in cells]
        else:
            values[:, k] = _numbers(name, cells, may_be_empty=bool(text))
    label_column = np.array([label.strip() for label in labels], dtype=np.str_)
    return Columns(tuple(names), values, label_column, categories)


def _numbers(name: str, cells: Sequence[str], *, may_be_empty: bool) -> Floats:
    try:
        return np.array([cell or "nan" for cell in cells] if may_be_empty else cells, dtype=np.float64)
    except ValueError as error:
        raise InputError(f"a feature is not a number: {name}: {error}") from error


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

ADULT_NAMES = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
)  # fmt: skip
_ADULT_NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")

BANK_NAMES = (
    "age", "job", "marital", "education", "default", "housing", "loan", "duration", "campaign", "pdays",
    "previous", "emp_var_rate", "cons_price_idx", "cons_conf_idx", "euribor3m", "nr_employed",
)  # fmt: skip

SPECT_NAMES = tuple(f"F{k}" for k in range(1, 23))
DIGITS_NAMES = tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8))

DOWNLOADED: dict[str, Callable[[Sequence[bytes]], Columns]] = {
    # wine.data: the cultivar first.
    "wine": partial(by_position, names=WINE_NAMES, label=0, features=slice(1, None)),
    # parkinsons.data: a header, the label in the middle.
    "parkinsons": lambda files: by_name(files[0], label="status", drop=("name",)),
    # SPECT.train, then SPECT.test: the diagnosis first.
    "spect": partial(by_position, names=SPECT_NAMES, label=0, features=slice(1, None)),
    # wdbc.data: id, then malignant or benign.
    "breast": partial(
        by_position, names=BREAST_NAMES, label=1, features=slice(2, None), labels={"M": "1", "B": "0"}
    ),
    # data.csv of Default of Credit Card Clients: a header, ID, the label last.
    "credit": partial(by_position, names=CREDIT_NAMES, label=-1, features=slice(1, -1), header=True),
    "adult": uci_adult,
    "bank": uci_bank,
    # optdigits.tes: 64 pixels, the digit last.
    "digits": partial(by_position, names=DIGITS_NAMES, label=-1, features=slice(-1)),
}
"""Readers of UCI's files, which have no header unless stated."""
