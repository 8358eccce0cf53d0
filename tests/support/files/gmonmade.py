# SPDX-License-Identifier: Apache-2.0
"""Files of gprof and LD_PROFILE, written field by field as glibc's headers have them."""

from __future__ import annotations

import struct

Arc = tuple[int, int, int]  # from, to, count


def header(version: int, order: str = "<") -> bytes:
    """Return the header of all such files."""
    return b"gmon" + struct.pack(f"{order}I", version) + bytes(12)


def histogram(
    low: int,
    high: int,
    ticks: list[int],
    *,
    bits: int = 64,
    order: str = "<",
    rate: int = 100,
    dimension: bytes = b"seconds",
    letter: bytes = b"s",
) -> bytes:
    """Return the header of a histogram and its bins, without a tag."""
    word = "Q" if bits == 64 else "I"
    head = struct.pack(f"{order}2{word}2I15sc", low, high, len(ticks), rate, dimension, letter)
    return head + struct.pack(f"{order}{len(ticks)}H", *ticks)


def arcs(several: list[Arc], *, bits: int = 64, order: str = "<", tag: bytes = b"\1") -> bytes:
    """Return arcs, each with a tag in front."""
    word = "Q" if bits == 64 else "I"
    return b"".join(tag + struct.pack(f"{order}2{word}I", *arc) for arc in several)


def blocks(addrs: list[tuple[int, int]], *, bits: int = 64, order: str = "<") -> bytes:
    """Return counts of basic blocks with their tag."""
    word = "Q" if bits == 64 else "I"
    data = b"".join(struct.pack(f"{order}2{word}", *pair) for pair in addrs)
    return b"\2" + struct.pack(f"{order}I", len(addrs)) + data


def room(size: int) -> int:
    """Return for how many arcs LD_PROFILE makes room where there are `size` bytes of code."""
    return min(max(size * 3 // 100, 50), 1 << 20)


def ldprofile(
    low: int,
    size: int,
    several: list[Arc],
    *,
    ticks: dict[int, int] | None = None,
    used: int | None = None,
    bits: int = 64,
    order: str = "<",
) -> bytes:
    """Return a file of LD_PROFILE for `size` bytes of code at `low`; `used` None: all arcs."""
    bins = [0] * (size // 4)
    for number, count in (ticks or {}).items():
        bins[number] = count
    word = struct.Struct(f"{order}I")
    table = arcs(several, bits=bits, order=order, tag=b"")
    end = room(size) * (2 * bits // 8 + 4)
    return (
        header(0x1FFFF, order)
        + word.pack(0)
        + histogram(low, low + size, bins, bits=bits, order=order)
        + word.pack(1)
        + word.pack(len(several) if used is None else used)
        + table.ljust(end, b"\0")
    )
