"""Canonical sample ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedvalue.crypto.ids import PackedIds, canonical_ids
from fedvalue.errors import InputError


def texts(packed: PackedIds) -> list[bytes]:
    data = packed.data.tobytes()
    return [data[a:b] for a, b in zip(packed.offsets[:-1], packed.offsets[1:], strict=True)]


@pytest.mark.parametrize(
    "ids",
    [
        ["7", "ada", "x y"],
        np.array(["7", "ada", "x y"]),
        np.array(["7", "ada", "x y"], dtype=object),
        np.array([b"7", b"ada", b"x y"]),
        pd.Series(["7", "ada", "x y"]),
        pa.array(["7", "ada", "x y"]),
        pa.array(["7", "ada", "x y"], type=pa.large_string()),
        pa.chunked_array([["7"], ["ada", "x y"]]),
        pa.array(["gone", "7", "ada", "x y", "gone"]).slice(1, 3),
        [b"7", b"ada", b"x y"],
    ],
)
def test_every_kind_of_array_gives_the_same_bytes(ids: Any) -> None:
    assert texts(canonical_ids(ids)) == [b"7", b"ada", b"x y"]


def test_whole_numbers_are_written_in_decimal() -> None:
    assert texts(canonical_ids(np.array([5, -3, 10**18]))) == [b"5", b"-3", b"1000000000000000000"]
    assert texts(canonical_ids([5])) == texts(canonical_ids(["5"]))


def test_text_is_trimmed_and_composed() -> None:
    """Two spellings of one name are one person; the trimmed white space is Unicode's."""
    decomposed, composed = "Zoe\u0308", "Zo\u00eb"
    assert texts(canonical_ids([f"\u2003{decomposed} "])) == [composed.encode()]
    assert texts(canonical_ids(["  ada\t"])) == [b"ada"]


@pytest.mark.parametrize("space", [chr(k) for k in range(0x21)] + ["\x7f", "\x85", "\xa0"])
def test_a_neighbour_with_an_accent_does_not_change_what_is_trimmed(space: str) -> None:
    """ASCII ids take a short way; it must trim the same characters as the long one."""
    alone, beside = canonical_ids([f"{space}7{space}"]), canonical_ids([f"{space}7{space}", "Zo\u00eb"])
    assert texts(alone)[0] == texts(beside)[0]


def test_case_is_folded_on_request_only() -> None:
    assert texts(canonical_ids(["Ada", "STRASSE"])) == [b"Ada", b"STRASSE"]
    assert texts(canonical_ids(["Ada", "STRASSE"], fold_case=True)) == [b"ada", b"strasse"]
    assert texts(canonical_ids(["Straße"], fold_case=True)) == [b"strasse"]


@pytest.mark.parametrize(
    "ids",
    [["a", None], ["a", ""], ["  "], [1.5], [True], ["a", 1], [b"", b"x"], ["x" * 1025], [object()], [["a"]]],
)
def test_what_is_no_id_is_refused(ids: Any) -> None:
    with pytest.raises(InputError):
        canonical_ids(ids)


def test_row_numbers_differ() -> None:
    assert len(set(texts(PackedIds.of_rows(300)))) == 300
