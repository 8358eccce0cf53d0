# SPDX-License-Identifier: Apache-2.0
"""Long doubles: the C library reads the text back as the same number."""

from __future__ import annotations

import ctypes
import random

import pytest

from soscope.prototypes.show import long_double

LIBC = ctypes.CDLL(None)
LIBC.strtold.restype = ctypes.c_longdouble


def read_back(text: str) -> tuple[int, int]:
    """Return the words of the number that the C library makes of a text."""
    kept = ctypes.create_string_buffer(16)
    LIBC.sscanf(text.encode(), b"%Lf", kept)
    data = kept.raw
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:10], "little")


@pytest.mark.parametrize("seed", range(3))
def test_the_text_means_the_number(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        low = chance.getrandbits(63) | 1 << 63
        high = chance.choice((chance.randrange(1, 0x7FFF), chance.randrange(0x3FC0, 0x4040)))
        if chance.random() < 0.2:
            low = chance.choice((1 << 63, (1 << 64) - 1))
        elif chance.random() < 0.2:
            low, high = chance.getrandbits(62), 0  # a denormal
        high |= chance.choice((0, 0x8000))
        text, _ = long_double(low, high)
        assert read_back(text) == (low, high), text


@pytest.mark.parametrize(
    ("low", "high", "text", "value"),
    [
        (0xA << 60, 0x4000, "2.5", 2.5),
        (0xCCCC_CCCC_CCCC_CCCD, 0x3FFB, "0.1", 0.1),
        (0xCCCC_CCCC_CCCC_D000, 0x3FFB, "0.10000000000000000555", 0.1),
        (1 << 63, 0x7FFE, "5.9486574767861588254e+4931", None),
        (1, 0, "4e-4951", 0.0),
        (0, 0x8000, "-0", -0.0),
        (1 << 63, 0xFFFF, "-inf", float("-inf")),
        (1 << 63, 0x3FFF + 60, "1.152921504606846976e+18", 2.0**60),
    ],
)
def test_it_is_the_shortest(low: int, high: int, text: str, value: float | None) -> None:
    assert long_double(low, high) == (text, value)
