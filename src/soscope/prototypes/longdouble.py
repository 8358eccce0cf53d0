# SPDX-License-Identifier: Apache-2.0
"""Print an 80-bit x87 number with the fewest digits that identify it."""

from __future__ import annotations

from math import ldexp

_WORD = 0xFFFF_FFFF_FFFF_FFFF
_MOST_DIGITS = 21  # enough for any 64-bit mantissa
_LOG_2 = 0.30102999566398120  # log10(2)
_PLAIN = range(-4, 16)  # decimal exponents that repr writes without an exponent


def long_double(low: int, high: int) -> tuple[str, float | None]:
    """Return the number in two stack words: its text, and the nearest double.

    The value is None for a finite number that is too large for a double.
    """
    exponent = high & 0x7FFF
    sign = "-" if high & 0x8000 else ""
    if exponent == 0x7FFF:
        text = "inf" if low << 1 & _WORD == 0 else "nan"
        return (sign if text == "inf" else "") + text, float(sign + text)
    # Denormals have the exponent of the smallest normal number.
    scale = max(exponent, 1) - 16383 - 63
    text = sign + (_decimal(low, scale) if low else "0")
    try:
        value = ldexp(low, scale)
    except OverflowError:
        return text, None
    return text, -value if sign else value


def _decimal(low: int, scale: int) -> str:
    """Return the shortest decimal number for which `low` * 2**`scale` is the nearest number."""
    over, under = (low << scale, 1) if scale >= 0 else (low, 1 << -scale)
    tens = int((low.bit_length() - 1 + scale) * _LOG_2 // 1)
    if not _at_least(over, under, tens):
        tens -= 1
    elif _at_least(over, under, tens + 1):
        tens += 1
    least, most = 1, _MOST_DIGITS
    while least < most:  # if fewer digits are enough, more are, too
        count = (least + most) // 2
        if _is_near(over, under, low, tens, count):
            most = count
        else:
            least = count + 1
    digits = str(_rounded(over, under, tens, most))
    if len(digits) > most:  # rounded up to the next power of ten
        tens += 1
    return _written(digits.rstrip("0"), tens)


def _at_least(over: int, under: int, tens: int) -> bool:
    ten: int = 10 ** abs(tens)
    return over >= under * ten if tens >= 0 else over * ten >= under


def _scaled(over: int, under: int, tens: int, count: int) -> tuple[int, int]:
    """Return the fraction times a power of ten, so that it has `count` digits before the point."""
    shift = count - 1 - tens
    ten: int = 10 ** abs(shift)
    return (over * ten, under) if shift >= 0 else (over, under * ten)


def _rounded(over: int, under: int, tens: int, count: int) -> int:
    over, under = _scaled(over, under, tens, count)
    return (2 * over + under) // (2 * under)


def _is_near(over: int, under: int, low: int, tens: int, count: int) -> bool:
    """Return whether `count` digits suffice to tell the number from its neighbours."""
    over, under = _scaled(over, under, tens, count)
    away = abs((2 * over + under) // (2 * under) * under - over)
    # a neighbour is a `low`th part of this number away, or half of that just below a power of two
    return away * (4 if low == 1 << 63 else 2) * low < over


def _written(digits: str, tens: int) -> str:
    """Write the point or the exponent as repr does."""
    if tens not in _PLAIN:
        point = "." if len(digits) > 1 else ""
        return f"{digits[0]}{point}{digits[1:]}e{'-' if tens < 0 else '+'}{abs(tens):02}"
    if tens < 0:
        return f"0.{'0' * (-tens - 1)}{digits}"
    whole, rest = digits[: tens + 1].ljust(tens + 1, "0"), digits[tens + 1 :]
    return f"{whole}.{rest}" if rest else whole
