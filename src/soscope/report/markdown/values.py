# SPDX-License-Identifier: Apache-2.0
"""Values of a document in Markdown. Strings are quoted, as data.

Names and arguments come from the target. Whatever they contain, they are neither markup nor a
line of their own, and readers can tell them from soscope's words.
"""

from __future__ import annotations

from soscope.model.call import printable

NONE = "-"
_LONGEST = 300  # characters of a string, at most
_COUNTED = {
    "calls", "errors", "count", "dropped", "bytes", "beyond", "failed", "returns", "more", "live",
    "created", "destroyed", "allocations", "frees", "peak", "temporary", "objects",
}  # fmt: skip
_BYTES = {"bytes", "size", "given_back", "trim", "in_use", "free", "top"}
_DATES = 10**17  # nanoseconds; more than three years is a time since 1970
_KEPT = {"ns", "us"}


def quoted(text: str, *, in_table: bool = False) -> str:
    """Return text as a code span: one line of data."""
    shown = printable(text)
    if len(shown) > _LONGEST:
        shown = f"{shown[: _LONGEST - 20]}…{shown[-19:]}"
    fence, longest, run = "`", 0, 0
    for letter in shown:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    if not shown or shown[0] in "` " or shown[-1] in "` ":  # Markdown strips one blank per side
        shown = f" {shown} "
    if in_table:  # an unescaped bar always ends a cell
        shown = shown.replace("|", "\\|")
    return f"{fence}{shown}{fence}"


def label(key: str) -> str:
    """Return the label of a member. Values of times and sizes have their units."""
    name = key.removesuffix("_ns") if key.removesuffix("_ns") not in _KEPT else key
    return name.replace("_", " ")


def value_text(key: str, value: object, *, in_table: bool = False) -> str:
    """Return a scalar as text, NONE if it is unknown or missing."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return quoted(value, in_table=in_table)
    if isinstance(value, float):
        if key.startswith("bytes_"):
            return size_text(round(value))
        return f"{value:,.1f}" if key.startswith("count_") else f"{value:.6g}"
    if not isinstance(value, int):
        return quoted(str(value), in_table=in_table)
    if key.endswith("_ns"):
        return time_text(value) if abs(value) < _DATES else date_text(value)
    if key in _BYTES or key.endswith("_bytes") or key.startswith("bytes_"):
        return size_text(value)
    is_counted = key.endswith(("_calls", "_count")) or key.startswith("count_")
    return f"{value:,}" if key in _COUNTED or is_counted else str(value)


def time_text(ns: int) -> str:
    """Return a duration with a suitable unit."""
    for size, unit in ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if abs(ns) >= size:
            return f"{ns / size:.3f} {unit}"
    return f"{ns} ns"


def date_text(ns: int) -> str:
    """Return a time since 1970 as a date."""
    import datetime as dt

    at = dt.datetime.fromtimestamp(ns / 1e9, dt.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03} UTC"


def size_text(size: int) -> str:
    """Return a number of bytes, and roughly how many GiB, MiB or KiB they are."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(size) >= unit:
            return f"{size:,} bytes ({size / unit:.1f} {name})"
    return f"{size:,} bytes"
