"""The data sets: the six of the paper's experiments, and three more for the benchmark of values.

This module has facts only; `locate` finds the files and `parse` reads them. FedValue ships none of the data.
CC BY 4.0 requires attribution, so every loaded data set has an `origin`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedvalue.errors import InputError


@dataclass(frozen=True, slots=True)
class Entry:
    """The facts about a data set.

    Args:
        name: Name in the paper, in lower case.
        n_samples, n_features, n_labels: Of the file (paper, Table 1).
        origin: Attribution.
        licence: Terms of use, if known.
        fingerprint: SHA-256 over the values and labels (`parse.fingerprint`), the same for every file format.
        urls: Where `--download` fetches it; empty if it may not be fetched automatically.
        by_hand: How to get it without a download.
        categorical: All features are categories already, so nothing is binned.
        text: Features that are text; the others are numbers.
        leave_out: Columns of the file that `load` drops, because no model may use them.
        in_paper: It is one of the paper's six.
    """

    name: str
    n_samples: int
    n_features: int
    n_labels: int
    origin: str
    licence: str
    fingerprint: str
    urls: tuple[str, ...] = ()
    by_hand: str = ""
    categorical: bool = False
    text: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    in_paper: bool = True

    @property
    def file_name(self) -> str:
        """The file in the common layout: id, features, label."""
        return f"{self.name}.csv"


_CC_BY = "CC BY 4.0 (as public repositories quote the UCI page)"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"

CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="wine", n_samples=178, n_features=13, n_labels=3,
            origin="UCI 109, Wine (Aeberhard and Forina), DOI 10.24432/C5PC7J",
            licence=_CC_BY,
            fingerprint="29961d9bdf7f06b7eefd499c7d406b1e365c52c41d7f37227433e222483c770f",
            urls=(f"{_UCI}/wine/wine.data",),
        ),
        Entry(
            name="parkinsons", n_samples=195, n_features=22, n_labels=2,
            origin="UCI 174, Parkinsons (Little), DOI 10.24432/C59C74",
            licence=_CC_BY,
            fingerprint="1c0a1eb77855ed95427449edcd1e841cca529815d58e69cd22ec1d1f562fdf1e",
            urls=(f"{_UCI}/parkinsons/parkinsons.data",),
        ),
        Entry(
            name="spect", n_samples=267, n_features=22, n_labels=2,
            origin="UCI 95, SPECT Heart (Cios, Kurgan, Goodenday)",
            licence="expected CC BY 4.0, not confirmed",
            fingerprint="d96f6c597d2fe57816ed36f1643fd11d5d0a951df98360215a7d8850c803fda9",
            urls=(f"{_UCI}/spect/SPECT.train", f"{_UCI}/spect/SPECT.test"),
            categorical=True,
        ),
        Entry(
            name="breast", n_samples=569, n_features=30, n_labels=2,
            origin="UCI 17, Breast Cancer Wisconsin (Diagnostic), DOI 10.24432/C5DW2B",
            licence=_CC_BY,
            fingerprint="16ac2cb42d894529bd68049c42f3ffb36950306715e3966987bda2139c5bc7bb",
            urls=(f"{_UCI}/breast-cancer-wisconsin/wdbc.data",),
        ),
        Entry(
            name="music", n_samples=1000, n_features=57, n_labels=10,
            origin="Kaggle andradaolteanu/gtzan-dataset-music-genre-classification, features_30_sec.csv",
            licence="none found stated: never redistributed, never downloaded by FedValue",
            fingerprint="b0f63ae010f3caf9bf3fc6d6422c977b4dcc7d838d2ca513f829be6316d5d73a",
            by_hand="get features_30_sec.csv yourself from "
            "https://www.kaggle.com/datasets/andradaolteanu/gtzan-dataset-music-genre-classification, "
            "put it into a folder under that name and set FEDVALUE_DATA to that folder",
        ),
        Entry(
            name="credit", n_samples=30000, n_features=23, n_labels=2,
            origin="UCI 350, Default of Credit Card Clients (Yeh), DOI 10.24432/C55S3H",
            licence=_CC_BY,
            fingerprint="9f4c95598f5ba0cb0b519f1b60728c40ce7b13b7341f45ab8189ab993795590c",
            urls=("https://archive.ics.uci.edu/static/public/350/data.csv",),
        ),
        Entry(
            name="adult", n_samples=32561, n_features=14, n_labels=2,
            origin="UCI 2, Adult (Becker, Kohavi), DOI 10.24432/C5XW20; training part",
            licence=_CC_BY,
            fingerprint="a7c83fb6b6a8cfb2ac35d21c49d89047f4c6854b4775566a30c6a0b3c920f674",
            urls=(f"{_UCI}/adult/adult.data",),
            text=(
                "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex",
                "native_country",
            ),
            # A sampling weight, and `education_num` in words.
            leave_out=("fnlwgt", "education"),
            in_paper=False,
        ),
        Entry(
            name="bank", n_samples=41188, n_features=16, n_labels=2,
            origin="UCI 222, Bank Marketing (Moro, Rita, Cortez), DOI 10.24432/C5K306; bank-additional "
            "without contact, month, day_of_week and poutcome",
            licence=_CC_BY,
            fingerprint="66cc11112fe26d532dbb94b24062c755bb9ee927fbf8ed707059c45d3e71f1aa",
            urls=(f"{_UCI}/00222/bank-additional.zip",),
            text=("job", "marital", "education", "default", "housing", "loan"),
            # Known only after the call, as the data's authors point out.
            leave_out=("duration",),
            in_paper=False,
        ),
        Entry(
            name="digits", n_samples=1797, n_features=64, n_labels=10,
            origin="UCI 80, Optical Recognition of Handwritten Digits (Alpaydin, Kaynak), "
            "DOI 10.24432/C50P49; test part",
            licence="expected CC BY 4.0, not confirmed; ships with scikit-learn",
            fingerprint="4103ad9718360e805742d2d36fc53ace0671baae5e38dfaae4cecfe5a8041a54",
            urls=(f"{_UCI}/optdigits/optdigits.tes",),
            in_paper=False,
        ),
    )
}  # fmt: skip


def entry(name: str) -> Entry:
    """The entry of a data set; an unknown name is refused with the known ones."""
    try:
        return CATALOGUE[name]
    except KeyError:
        raise InputError(
            f"unknown data set {name!r}; there are {', '.join(CATALOGUE)}", code="E_DATASET"
        ) from None
