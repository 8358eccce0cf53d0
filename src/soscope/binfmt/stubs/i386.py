# SPDX-License-Identifier: Apache-2.0
"""Stubs on i386, as GNU ld (with and without IBT), gold, LLD and mold make them.

i386 psABI, "Procedure Linkage Table". A stub names its slot by address or, in code that may
lie anywhere, by its distance from _GLOBAL_OFFSET_TABLE_, which %ebx holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.stubs.table import Code, Found, SlotTable
from soscope.model.filemap import IPLT, PLT, PLT_GOT, PLT_SEC, RETPOLINE

PLACES = (".plt", ".iplt")

# [endbr32] [mov $index, %ecx] jmp *addr, or jmp *disp(%ebx)
_JUMP = re.compile(
    rb"(?=((?:\xf3\x0f\x1e\xfb)?(?:\xb9.{4})?\xf2?\xff([\x25\xa3])(.{4})))", re.DOTALL
)
# push %eax; mov addr, %eax or mov disp(%ebx), %eax; call to where it is left by a return
_RETPOLINE = re.compile(rb"(?=(\x50(?:\xa1|\x8b(\x83))(.{4}))\xe8)", re.DOTALL)
_LAZY = re.compile(rb"\x68.{4}\xf2?\xe9", re.DOTALL)
_FILLED = re.compile(rb"\x66?\x90|\x66?\x0f\x1f[\0\x40\x44\x80\x84]|\xcc|\0\0|\x8d[\x74\xb4]\x26")
_BY_ADDRESS = b"\x25"
_SHORT = 8  # bytes of the smallest stub
_SIZE = 16
_LONG = 32
_MASK = 0xFFFF_FFFF
_TRIED = 64  # distances that may be that of the first slot


def find(code: Code, table: SlotTable) -> Iterator[Found]:
    """Give the stubs in a stretch of code."""
    data, base, slots = code.data, code.vaddr, table.slots
    is_plt = code.section is not None
    got = _got(table, data, is_plt=is_plt)
    from_bytes = int.from_bytes
    for match in _JUMP.finditer(data):
        at = match.start()
        start = base + at
        if start & 7:
            continue
        slot = from_bytes(match[3], "little")
        if match[2] != _BY_ADDRESS:
            slot = slot + got & _MASK
        is_slot = slot in slots
        if not (is_slot or is_plt):
            continue
        end = match.end(1)
        is_lazy = _LAZY.match(data, end) is not None
        is_padded = end == len(data) or _FILLED.match(data, end) is not None
        is_full = end - at >= _SIZE - 1 and not start & 15  # mold's, with an index
        if not (is_lazy or is_padded or is_full):
            continue
        size = _SIZE if is_lazy or (not start & 15 and not _is_short(data, at, end)) else _SHORT
        if size == _SIZE and start & 15:
            continue
        yield Found(start, size, slot, _kind(code.section, is_lazy, bool(slots.get(slot)), size))
    for match in _RETPOLINE.finditer(data):
        start = base + match.start()
        slot = from_bytes(match[3], "little")
        if match[2] is not None:
            slot = slot + got & _MASK
        if not start & 15 and (slot in slots or is_plt):
            yield Found(start, _LONG, slot, RETPOLINE)


def _kind(section: str | None, is_lazy: bool, is_ifunc: bool, size: int) -> str:
    if is_ifunc:
        return IPLT
    if is_lazy:
        return PLT
    if section is None:
        return PLT_GOT if size == _SHORT else PLT_SEC
    if section.startswith(".plt.got"):
        return PLT_GOT
    return PLT_SEC if section.startswith(".plt.sec") else PLT


def _is_short(data: bytes, at: int, end: int) -> bool:
    return end - at <= _SHORT and data[at + _SHORT : at + _SHORT + 2] in (b"\xff\x25", b"\xff\xa3")


def _got(table: SlotTable, data: bytes, *, is_plt: bool) -> int:
    """Return what distances count from: the base with which most of them lead to slots.

    mold's is the beginning of .got: without section headers, the stub of the first slot tells.
    """
    if is_plt and len(table.bases) < 2:
        return table.bases[0] if table.bases else 0
    distances = [
        int.from_bytes(match[3], "little")
        for match in _JUMP.finditer(data)
        if match[2] != _BY_ADDRESS
    ]
    bases = list(table.bases)
    if not is_plt and table.calls:
        first = min(table.calls)
        bases += [first - one & _MASK for one in dict.fromkeys(distances[:_TRIED])]

    def fitting(base: int) -> int:
        return sum(base + one & _MASK in table.slots for one in distances)

    best = max(bases, key=fitting, default=0)  # the first of several that fit as well
    # a section with a single stub may fit several: mold's .plt.got
    table.bases = (best, *(one for one in table.bases if one != best))
    return best
