"""What the compiled modules of the engine share: one decorator, and two functions.

Rules of a kernel (modules named `*_kernels.py`):
- Loops only. It takes arrays, numbers and `NamedTuple`s of these, and one type of each: a second signature
  would be compiled a second time.
- It allocates nothing: its caller brings the room to work in. Allocation is slow to compile, and without it
  references need not be counted, which would cost 0.2 µs for a call with a few structures.
- It releases the interpreter lock, and its machine code is kept on disk.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.core.options import DefaultOptions
from numba.cpython.unsafe.numbers import trailing_zeros

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True}
if hasattr(DefaultOptions, "_nrt"):  # a private option: without it kernels are slower, and right
    _OPTIONS["_nrt"] = False

kernel = njit(**_OPTIONS)
"""Decorator of a kernel."""

inlined_kernel = njit(inline="always", **_OPTIONS)
"""Decorator of a few lines that are copied into each kernel that calls them."""


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
