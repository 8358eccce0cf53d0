# SPDX-License-Identifier: Apache-2.0
"""Long doubles of other machines, against the compiler's own conversions and exact arithmetic."""

from __future__ import annotations

import ctypes
import struct
from fractions import Fraction

import pytest

from soscope.control.breakpoints import values
from soscope.control.breakpoints.layouts import DOUBLE, LONGEST, WIDE, WORD, kinds_of_format
from soscope.prototypes import formats

DOUBLES = [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, -5e-324, 2.2250738585072014e-308, float("inf")]


def _own(value: float) -> tuple[int, int]:
    """Return the words of this machine's long double."""
    data = bytes(ctypes.c_longdouble(value))
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:10], "little")


def _value(words: tuple[int, int]) -> Fraction:
    low, high = words
    size = Fraction(low) * Fraction(2) ** (max(high & 0x7FFF, 1) - 16383 - 63)
    return -size if high >> 15 else size


def _quad(value: Fraction) -> bytes:
    """Return the number of 128 bits next to a positive value."""
    power = value.numerator.bit_length() - value.denominator.bit_length()
    power -= value < Fraction(2) ** power
    whole = round(value / Fraction(2) ** (power - 112))
    return ((power + 16383 << 112) + whole - (1 << 112)).to_bytes(16, "little")


@pytest.mark.parametrize("value", DOUBLES)
def test_doubles_are_what_the_compiler_makes_of_them(value: float) -> None:
    data = struct.pack("<d", value)
    assert values.from_double(data) == _own(value)
    assert values.from_pair(data, bytes(8)) == _own(value)


def test_not_a_number_stays_one() -> None:
    low, high = values.from_double(struct.pack("<d", float("nan")))
    assert high & 0x7FFF == 0x7FFF
    assert low << 1 & (1 << 64) - 1
    low, high = values.from_quad((0xFFFF << 112 | 1 << 111).to_bytes(16, "little"))
    assert (high, low >> 62) == (0xFFFF, 3)


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(10) ** 4000, Fraction(2) ** 80 + 1])
def test_quads_become_the_nearest(value: Fraction) -> None:
    found = _value(values.from_quad(_quad(value)))
    assert abs(found - value) * 2**64 <= value


def test_a_pair_keeps_what_one_double_has_not() -> None:
    big, small = 1.0, 2.0**-60
    words = values.from_pair(struct.pack("<d", big), struct.pack("<d", small))
    assert _value(words) == Fraction(big) + Fraction(small)
    words = values.from_pair(struct.pack("<d", -big), struct.pack("<d", small))
    assert _value(words) == -Fraction(big) + Fraction(small)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (b"%d %lld %*.*f %%%s", [WORD, WIDE, WORD, WORD, DOUBLE, WORD]),
        (b"%#'llx%Lg%jd%m", [WIDE, LONGEST, WIDE]),
        (b"%2$d", []),  # which is not followed
    ],
)
def test_formats_say_what_is_wide(text: bytes, kinds: list[str]) -> None:
    taken, _ = formats.printf_arguments_of(text, "printf")
    assert kinds_of_format(taken, text) == kinds
