# SPDX-License-Identifier: Apache-2.0
"""The mappings of a process, the gaps between them, and its auxiliary vector."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from struct import Struct

from soscope.errors import FormatError
from soscope.model.record import Record

AT_NULL = 0
AT_PHDR = 3
AT_PHENT = 4
AT_PHNUM = 5
AT_PAGESZ = 6
AT_BASE = 7  # address of the loader, 0 for a static program
AT_ENTRY = 9
AT_SECURE = 23  # set-user-id, set-group-id or file capabilities took effect
AT_EXECFN = 31
AT_SYSINFO_EHDR = 33  # the vDSO

_FILLING = 0.5  # seconds; the vector is empty for less than 1 ms during an exec
_PAUSE = 0.0005  # seconds

_PAIRS = {
    (bits, order): Struct(f"{order}2{code}")
    for bits, code in ((64, "Q"), (32, "I"))
    for order in "<>"
}


def parse_auxv(data: bytes, *, bits: int = 64, order: str = "<") -> dict[int, int]:
    """Return the vector in `data`, up to AT_NULL, as a dict: type -> value.

    Raises FormatError if the vector has no end.
    """
    pair = _PAIRS[bits, order]
    values: dict[int, int] = {}
    for offset in range(0, len(data) - pair.size + 1, pair.size):
        kind, value = pair.unpack_from(data, offset)
        if kind == AT_NULL:
            return values
        values.setdefault(kind, value)
    raise FormatError(
        f"auxiliary vector: no AT_NULL in {len(data)} bytes", field="AT_NULL", offset=len(data)
    )


def read_auxv(pid: int) -> dict[int, int]:
    """Return the auxiliary vector of a 64-bit process.

    If the kernel is just filling it, in execve(2), wait until it is complete: AT_EXECFN is the
    last entry that each program has (fs/binfmt_elf.c, create_elf_tables). Raises OSError if
    /proc/PID/auxv cannot be read, FormatError if the vector has no end.
    """
    end = time.monotonic() + _FILLING
    while True:
        with open(f"/proc/{pid}/auxv", "rb", buffering=0) as file:
            values = parse_auxv(file.read())
        if AT_EXECFN in values or time.monotonic() > end:
            return values
        time.sleep(_PAUSE)


_LOWEST = 1 << 16  # usual value of vm.mmap_min_addr
_GUARD = 1 << 20  # bytes kept free below a mapping, because a stack grows downwards


class Mapping(Record):
    """One line of /proc/PID/maps; `flags` is the text "rwxp", `path` is "" for anonymous memory."""

    start: int
    end: int
    flags: str
    offset: int
    inode: int
    path: str


def parse(text: bytes) -> list[Mapping]:
    """Parse the text of /proc/PID/maps."""
    # split at newlines only: every other character may be part of a path
    return [parse_line(line) for line in text.split(b"\n") if line]


def parse_line(line: bytes) -> Mapping:
    """Parse one line."""
    fields = line.split(None, 5)
    start, _, end = fields[0].partition(b"-")
    path = os.fsdecode(fields[5]) if len(fields) > 5 else ""
    flags, offset, inode = fields[1].decode(), int(fields[2], 16), int(fields[4])
    return Mapping(int(start, 16), int(end, 16), flags, offset, inode, path)


def start_of(line: bytes) -> int:
    """Return the start address of the mapping in a line."""
    return int(line[: line.index(b"-")], 16)


def read(pid: int) -> list[Mapping]:
    """Read the mappings of a process, by rising address.

    Raises OSError if they cannot be read.
    """
    return parse(text_of(pid))


def text_of(pid: int) -> bytes:
    """Return the text of /proc/PID/maps. Raises OSError."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        return file.read()


def containing(mappings: list[Mapping], addr: int) -> Mapping | None:
    """Return the mapping that contains an address, or None; `mappings` come from `read`."""
    at = bisect_right(mappings, addr, key=lambda mapping: mapping.start)
    return mappings[at - 1] if at and addr < mappings[at - 1].end else None


def find_gap(mappings: list[Mapping], near: int, size: int, reach: int) -> int | None:
    """Return a page-aligned address of `size` free bytes within `reach` of `near`, or None.

    All the bytes are within reach, and no other free place is nearer.
    """
    low, high = max(near - reach, _LOWEST), near + reach
    gaps = []
    before = 0
    for mapping in mappings:
        gaps.append((before, mapping.start - _GUARD))
        before = mapping.end
    gaps.append((before, 1 << 47))
    best = None
    for gap in gaps:
        start, end = max(gap[0], low), min(gap[1], high)
        if end - start < size:
            continue
        at = (end - size if start < near else start) & -4096
        if at >= start and (best is None or abs(at - near) < abs(best - near)):
            best = at
    return best
