"""The compiler, loaded here and nowhere else: decorators of kernels, and three functions that they share.

Rules of a kernel of the engine (modules named `*_kernels.py`):
- Loops only. It takes arrays, numbers and `NamedTuple`s of these, and one type of each: a second signature
  would be compiled a second time.
- It allocates nothing: its caller brings the buffers. Allocation is slow to compile, and without it
  references need not be counted, which would cost 0.2 µs for a call with a few structures.
- It releases the interpreter lock, and its machine code is kept on disk until its own file changes: whoever
  changes a constant that it imports deletes `__pycache__`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg,method-assign"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.core import event
from numba.core.caching import IndexDataCacheFile
from numba.core.options import DefaultOptions
from numba.cpython.unsafe.numbers import trailing_zeros

from fedvalue import compile_notice

__all__ = [
    "add_compensated",
    "bit_index",
    "float_kernel",
    "inlined_kernel",
    "inner_kernel",
    "kernel",
    "njit",
    "xi_of",
]


class _Announcer(event.Listener):
    """Passes on that numba compiles something; loading from its cache is no such event."""

    def on_start(self, event: Any) -> None:
        compile_notice.announce()

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcer())


def _load_current(load_index: Any) -> Any:
    """Numba's reader of the list of kept kernels, which is empty if another release of FedValue kept them.

    Numba compares the age of the source only after unpickling, which fails for types that were renamed since.
    """

    def load(self: Any) -> Any:
        try:
            return load_index(self)
        except (AttributeError, ImportError):
            return {}

    return load


IndexDataCacheFile._load_index = _load_current(IndexDataCacheFile._load_index)


def _options(**private: bool) -> dict[str, Any]:
    """Options of a kernel. Where a version of numba lacks a private one, kernels are slower but right."""
    known = {name: value for name, value in private.items() if hasattr(DefaultOptions, name)}
    return {"cache": True, "nogil": True, **known}


kernel = njit(**_options(_nrt=False, no_cfunc_wrapper=True))
"""Decorator of a kernel."""

inner_kernel = njit(**_options(_nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True))
"""Decorator of a kernel that only other kernels call: it compiles faster without a way in from Python."""

inlined_kernel = njit(inline="always", **_options(_nrt=False, no_cfunc_wrapper=True))
"""Decorator of a few lines that are copied into each kernel that calls them."""


def float_kernel(*liberties: str) -> Any:
    """Decorator of a kernel of floating-point numbers: division by zero is not looked for.

    Args:
        liberties: What the compiler may do to sums, by LLVM's names: "reassoc", "contract", "nsz".
    """
    options = _options(_nrt=False, no_cfunc_wrapper=True)
    return njit(error_model="numpy", fastmath=set(liberties), **options)


@inlined_kernel
def xi_of(k, xi):
    """ξ(k) = k ln k, from the table where it reaches."""
    if k < len(xi):
        return xi[k]
    return k * np.log(float(k))


@inlined_kernel
def bit_index(word):
    """Position of the lowest set bit."""
    return np.int64(trailing_zeros(word))


@inlined_kernel
def add_compensated(sums, carry, k, term):
    """Add to `sums[k]` as Kahan does: many small terms go into one number."""
    term -= carry[k]
    bigger = sums[k] + term
    carry[k] = (bigger - sums[k]) - term
    sums[k] = bigger
