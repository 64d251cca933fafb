"""The codec of JSON documents: its limit of depth, and under threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedvalue import documents
from fedvalue.errors import InputError

FIRST_USES = """
import sys, threading
import msgspec
from fedvalue import documents

sys.setswitchinterval(1e-6)
inner = {"a": 1, "b": "x", "c": {"k": [1]}}
middle = {"x": [inner], "y": inner, "z": {"q": inner}}
data = {"m": middle, "n": [middle, middle]}
for _ in range(200):
    Inner = msgspec.defstruct("Inner", [("a", int), ("b", str), ("c", dict[str, list[int]])])
    Middle = msgspec.defstruct("Middle", [("x", list[Inner]), ("y", Inner | None), ("z", dict[str, Inner])])
    Outer = msgspec.defstruct("Outer", [("m", Middle), ("n", list[Middle])])
    barrier = threading.Barrier(8)

    def first_use():
        barrier.wait()
        assert documents.convert(Outer, data).n[1].z["q"].c == {"k": [1]}

    threads = [threading.Thread(target=first_use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("all read")
"""


def test_threads_that_are_the_first_to_read_a_kind_of_document_do_not_crash() -> None:
    """A server reads the manifest of several callers at once. msgspec alone would end it by signal 11."""
    ran = subprocess.run([sys.executable, "-c", FIRST_USES], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "all read\n"), ran.stderr


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":[', "]}"), ('[{"b":1,"a":', "}]")])
def test_documents_are_nested_up_to_a_limit_that_python_does_not_set(opening: str, closing: str) -> None:
    levels = opening.count("[") + opening.count("{")
    deepest = documents.MAX_DEPTH // levels
    documents.parse(opening * deepest + "0" + closing * deepest)
    for more in (deepest + 1, 500, 10_000):
        with pytest.raises(InputError, match="not valid JSON: "):
            documents.parse(opening * more + "0" + closing * more)


def test_brackets_within_text_are_not_levels() -> None:
    text = "[{" * 1000
    assert documents.parse(f'"{text}"') == text
    assert documents.parse(f'["{text}", {"[" * 99}{"]" * 99}]')[0] == text
