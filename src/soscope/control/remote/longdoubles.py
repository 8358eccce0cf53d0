# SPDX-License-Identifier: Apache-2.0
"""Convert long doubles of other machines to the nearest x87 number, as two words.

x86-64 passes a long double as these two words.
"""

from __future__ import annotations

import math
import struct

_BIAS = 16383
_BITS = 64  # bits of an x87 mantissa, with the integer bit
_QUAD_BITS = 112  # bits of an IEEE 754 quad's mantissa, without it
_INFINITE = 0x7FFF
_WHOLE = 1 << 63


def from_double(data: bytes) -> tuple[int, int]:
    """Return (low, high) for a double in little-endian order."""
    (value,) = struct.unpack("<d", data)
    return _special(value) or _rounded(*_parts(value))


def from_pair(first: bytes, second: bytes) -> tuple[int, int]:
    """Return (low, high) for the sum of two doubles, each in little-endian order."""
    (big,), (small,) = struct.unpack("<d", first), struct.unpack("<d", second)
    if not math.isfinite(big) or not math.isfinite(small) or not big:
        return from_double(first)
    (first_whole, first_power), (second_whole, second_power) = _parts(big), _parts(small)
    power = min(first_power, second_power)
    whole = (first_whole << first_power - power) + (second_whole << second_power - power)
    return _rounded(whole, power)


def from_quad(data: bytes) -> tuple[int, int]:
    """Return (low, high) for an IEEE 754 quad in little-endian order, (0, 0) for fewer bytes."""
    number = int.from_bytes(data[:16], "little")
    sign, exponent = number >> 127, number >> _QUAD_BITS & _INFINITE
    fraction = number & (1 << _QUAD_BITS) - 1
    if exponent == _INFINITE:
        return _WHOLE | (fraction >> _QUAD_BITS + 1 - _BITS), sign << 15 | _INFINITE
    if not exponent and not fraction:
        return 0, sign << 15
    whole = fraction | (bool(exponent) << _QUAD_BITS)
    scale = max(exponent, 1) - _BIAS - _QUAD_BITS
    return _rounded(-whole if sign else whole, scale)


def _special(value: float) -> tuple[int, int] | None:
    sign = 0x8000 if math.copysign(1, value) < 0 else 0
    if math.isnan(value):
        return _WHOLE | _WHOLE >> 1, sign | _INFINITE
    if math.isinf(value):
        return _WHOLE, sign | _INFINITE
    return None if value else (0, sign)


def _parts(value: float) -> tuple[int, int]:
    """Return (whole, power) of a finite number: whole * 2 ** power."""
    whole, divisor = value.as_integer_ratio()
    return whole, 1 - divisor.bit_length()


def _rounded(whole: int, power: int) -> tuple[int, int]:
    """Return the x87 number nearest to whole * 2 ** power, the even one of two."""
    sign, whole = (0x8000, -whole) if whole < 0 else (0, whole)
    # Denormal numbers have no integer bit.
    drop = max(whole.bit_length() - _BITS, 1 - _BIAS - _BITS + 1 - power)
    if drop > 0:
        rest, half = whole & (1 << drop) - 1, 1 << drop - 1
        whole >>= drop
        whole += rest > half or (rest == half and bool(whole & 1))
        power += drop
    else:
        whole, power = whole << -drop, power + drop
    if whole >> _BITS:
        whole, power = whole >> 1, power + 1
    exponent = power + _BITS - 1
    if exponent > _BIAS:
        return _WHOLE, sign | _INFINITE
    return whole, sign | (exponent + _BIAS if whole & _WHOLE else 0)
