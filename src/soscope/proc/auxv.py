# SPDX-License-Identifier: Apache-2.0
"""The auxiliary vector: what the kernel passes to a new program about itself."""

from __future__ import annotations

import time
from struct import Struct

from soscope.errors import FormatError

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


def parse(data: bytes, *, bits: int = 64, order: str = "<") -> dict[int, int]:
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


def read(pid: int) -> dict[int, int]:
    """Return the auxiliary vector of a 64-bit process.

    If the kernel is just filling it, in execve(2), wait until it is complete: AT_EXECFN is the
    last entry that each program has (fs/binfmt_elf.c, create_elf_tables). Raises OSError if
    /proc/PID/auxv cannot be read, FormatError if the vector has no end.
    """
    end = time.monotonic() + _FILLING
    while True:
        with open(f"/proc/{pid}/auxv", "rb", buffering=0) as file:
            values = parse(file.read())
        if AT_EXECFN in values or time.monotonic() > end:
            return values
        time.sleep(_PAUSE)
