# SPDX-License-Identifier: Apache-2.0
"""Numbers with units, as users write them: `16MiB`, `1g`, `250ms`, `2m`."""

from __future__ import annotations

from soscope.errors import UsageError

# k, m, g without B are powers of 1024, as in dd, head and most allocators' options. kB, MB, GB are
# powers of 1000, as in SI and coreutils.
_SIZES = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _SIZES[_letter] = _SIZES[f"{_letter}i"] = _SIZES[f"{_letter}ib"] = 1024**_power
    _SIZES[f"{_letter}b"] = 1000**_power

_DURATIONS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "": 1_000_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}

_MOST = 1 << 62  # fits every integer field that it may be written to


def parse_size(text: str) -> int:
    """Return bytes. A number without unit is bytes. Raises UsageError."""
    return _parse(text, _SIZES, "size", "64k, 16MiB or 1g")


def parse_duration(text: str) -> int:
    """Return nanoseconds. A number without unit is seconds. Raises UsageError."""
    return _parse(text, _DURATIONS, "time", "250ms, 10s or 2m")


def parse_count(text: str) -> int:
    """Return a number of things, 0 or more. Raises UsageError."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise UsageError(f"'{text}' is not a number", slug="number")
    return int(text)


def _parse(text: str, units: dict[str, int], what: str, examples: str) -> int:
    """Separate a positive number from its unit and multiply them."""
    stripped = text.strip()
    number = stripped.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµ ")
    unit = units.get(stripped[len(number) :].strip().lower())
    whole, dot, part = number.partition(".")
    digits = whole + part
    if unit is None or not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise UsageError(f"'{text}' is not a {what}", hint=f"for example {examples}", slug="unit")
    value = int(digits) * unit // 10 ** len(part) if dot else int(digits) * unit
    if not 0 < value < _MOST:
        raise UsageError(
            f"'{text}' is no possible {what}", hint=f"for example {examples}", slug="unit"
        )
    return value


def size_text(size: int) -> str:
    """Return a number of bytes as three digits and a unit."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.3g} {unit}" if unit != "B" else f"{size} B"
        value /= 1024
    return f"{value:.3g} TiB"


def duration_text(ns: int) -> str:
    """Return a duration in the format of `parse_duration`, with three digits: `10s`, `1.25ms`."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)):
        if ns >= size:
            return f"{float(f'{ns / size:.3g}'):g}{unit}"
    return f"{ns}ns"
