# SPDX-License-Identifier: Apache-2.0
"""Long doubles of other machines as the x87 number next to each: two words, as x86-64 passes it."""

from __future__ import annotations

import math
import struct

_BIAS = 16383
_BITS = 64  # of an x87 number, the one before the point among them
_QUAD_BITS = 112  # of the other kind, without that one
_INFINITE = 0x7FFF
_WHOLE = 1 << 63


def from_double(data: bytes) -> tuple[int, int]:
    """Return (low, high) for a double, little end first."""
    (value,) = struct.unpack("<d", data)
    return _special(value) or _rounded(*_parts(value))


def from_pair(first: bytes, second: bytes) -> tuple[int, int]:
    """Return (low, high) for the sum of two doubles, each little end first."""
    (big,), (small,) = struct.unpack("<d", first), struct.unpack("<d", second)
    if not math.isfinite(big) or not math.isfinite(small) or not big:
        return from_double(first)
    (first_whole, first_power), (second_whole, second_power) = _parts(big), _parts(small)
    power = min(first_power, second_power)
    whole = (first_whole << first_power - power) + (second_whole << second_power - power)
    return _rounded(whole, power)


def from_quad(data: bytes) -> tuple[int, int]:
    """Return (low, high) for 128 bits of IEEE 754, little end first; (0, 0) for fewer bytes."""
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
    """Return the number of 64 bits that is nearest to whole * 2 ** power, of two the even one."""
    sign, whole = (0x8000, -whole) if whole < 0 else (0, whole)
    # smaller numbers have no bit before the point
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
