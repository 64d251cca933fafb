"""The codec of JSON documents under threads."""

from __future__ import annotations

import subprocess
import sys

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
