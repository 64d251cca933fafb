"""exp and ln of whole vectors, in loops that the compiler turns into vector instructions.

The C library's functions take one number at a time. These are right to 2 units in the last place.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"
# numba infers the types of compiled functions from their arguments.

from __future__ import annotations

from fedvalue.compiled import float_kernel

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
"""The first 32 bits of ln 2, so that small multiples are exact; the next line has the rest."""
_LN2_LOW = 1.90821492927058770002e-10
_SHIFT = 6755399441055744.0
"""1.5 * 2^52: added to a number, it leaves the nearest whole number in the last bits."""
_SMALLEST = -700.0
"""Of exponents: e^-700 is a normal number."""
_ROOT_HALF = 0x3FE6A09E667F3BCD
"""Bits of the square root of 1/2."""


@float_kernel("contract")
def exp_in_place(values, bits, spare, spare_bits, length):
    """Replace values <= 0 by e to their power.

    x = n ln 2 + r, |r| <= ln 2 / 2, and e^r by its series up to r^13; what is left out is below 5e-18.

    Args:
        values: The exponents.
        bits: The same memory as whole numbers.
        spare: As long.
        spare_bits: The same memory as whole numbers.
        length: How many.
    """
    for i in range(length):
        x = max(values[i], _SMALLEST)
        shifted = x * _LOG2_E + _SHIFT
        spare[i] = shifted
        n = shifted - _SHIFT
        r = (x - n * _LN2_HIGH) - n * _LN2_LOW
        s = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
        s = 1.0 / 39916800.0 + r * s
        s = 1.0 / 3628800.0 + r * s
        s = 1.0 / 362880.0 + r * s
        s = 1.0 / 40320.0 + r * s
        s = 1.0 / 5040.0 + r * s
        s = 1.0 / 720.0 + r * s
        s = 1.0 / 120.0 + r * s
        s = 1.0 / 24.0 + r * s
        s = 1.0 / 6.0 + r * s
        s = 0.5 + r * s
        values[i] = 1.0 + (r + r * r * s)
    for i in range(length):
        bits[i] += spare_bits[i] << 52


@float_kernel("contract")
def log_in_place(values, bits, spare, spare_bits, length):
    """Replace positive values by their natural logarithms.

    x = 2^e m, 1/2 <= m^2 <= 2, and ln m = 2 artanh s, s = (m - 1) / (m + 1), by its series up to s^23: what
    is left out is below 1e-19. The arguments are those of `exp_in_place`.
    """
    for i in range(length):
        exponent = (bits[i] - _ROOT_HALF) >> 52
        bits[i] -= exponent << 52
        spare[i] = exponent
    for i in range(length):
        f = values[i] - 1.0
        s = f / (2.0 + f)
        t = s * s
        u = 2.0 / 21.0 + t * (2.0 / 23.0)
        u = 2.0 / 19.0 + t * u
        u = 2.0 / 17.0 + t * u
        u = 2.0 / 15.0 + t * u
        u = 2.0 / 13.0 + t * u
        u = 2.0 / 11.0 + t * u
        u = 2.0 / 9.0 + t * u
        u = 2.0 / 7.0 + t * u
        u = 2.0 / 5.0 + t * u
        u = 2.0 / 3.0 + t * u
        # ln m = 2 s + s t u, and 2 s = f - s f.
        values[i] = spare[i] * _LN2_HIGH + (f - (s * (f - t * u) - spare[i] * _LN2_LOW))
