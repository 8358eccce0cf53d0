# SPDX-License-Identifier: Apache-2.0
"""Stubs on x86-64, as GNU ld (with and without IBT and BND), gold, LLD and mold make them.

psABI, "Procedure Linkage Table". Each is aligned to its size, and names its slot by a
displacement from the end of an instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.stubs.table import Code, Found, SlotTable
from soscope.model.filemap import IPLT, PLT, PLT_GOT, PLT_SEC, RETPOLINE

PLACES = (".plt", ".iplt")

# [endbr64] [mov $index, %r11d] [bnd] jmp *disp(%rip); at every byte, so that no chance match
# within one hides the next
_JUMP = re.compile(rb"(?=((?:\xf3\x0f\x1e\xfa)?(?:\x41\xbb.{4})?\xf2?\xff\x25(.{4})))", re.DOTALL)
# [endbr64] mov disp(%rip), %r11; call or jmp to where it is left by a return
_RETPOLINE = re.compile(rb"(?=((?:\xf3\x0f\x1e\xfa)?\x4c\x8b\x1d(.{4}))[\xe8\xe9])", re.DOTALL)
# what stands behind the jump: the lazy half, or filling up to the next stub
_LAZY = re.compile(rb"\x68.{4}\xf2?\xe9", re.DOTALL)
_FILLED = re.compile(rb"\x66?\x90|\x66?\x0f\x1f[\0\x40\x44\x80\x84]|\xcc|\0\0")
_INDEX = b"\x41\xbb"
_SHORT = 8  # bytes of the smallest stub
_SIZE = 16
_LONG = 32
_MASK = (1 << 64) - 1


def find(code: Code, table: SlotTable) -> Iterator[Found]:
    """Give the stubs in a stretch of code."""
    data, base, slots = code.data, code.vaddr, table.slots
    is_plt = code.section is not None
    default = _kind(code.section)
    from_bytes = int.from_bytes
    for match in _JUMP.finditer(data):
        at = match.start()
        start = base + at
        if start & 7:
            continue
        end = match.end(1)
        slot = base + end + from_bytes(match[2], "little", signed=True) & _MASK
        is_slot = slot in slots
        if not (is_slot or is_plt):
            continue
        is_lazy = _LAZY.match(data, end) is not None
        if is_lazy:
            size = _SIZE
        elif _FILLED.match(data, end) is not None or end == len(data):
            size = _SHORT if end - at <= _SHORT and start & 15 else _size(data, at, end)
        elif data.startswith(_INDEX, at) or data.startswith(_INDEX, at + 4):
            size = _SIZE  # mold's: full to the last byte
        else:
            continue
        if size == _SIZE and start & 15:
            continue
        if is_slot and slots[slot]:
            kind = IPLT
        elif is_lazy:
            kind = PLT
        else:
            kind = default or (PLT_GOT if size == _SHORT else PLT_SEC)
        yield Found(start, size, slot, kind)
    for match in _RETPOLINE.finditer(data):
        start = base + match.start()
        slot = base + match.end(1) + from_bytes(match[2], "little", signed=True) & _MASK
        if not start & 15 and (slot in slots or is_plt):
            is_lazy = data[match.end(1)] == 0xE8
            yield Found(start, _LONG if is_lazy else _SIZE, slot, RETPOLINE)


def _kind(section: str | None) -> str | None:
    """Return what stubs without a lazy half are in a section, None where that is not known."""
    if section is None:
        return None
    if section.startswith(".plt.got"):
        return PLT_GOT
    return PLT_SEC if section.startswith((".plt.sec", ".plt.bnd")) else PLT


def _size(data: bytes, at: int, end: int) -> int:
    """Return the size of a stub that is only padded: another may begin after 8 bytes."""
    if end - at > _SHORT:
        return _SIZE
    following = data[at + _SHORT : at + _SHORT + 3]
    return _SHORT if following[:2] == b"\xff\x25" or following == b"\xf2\xff\x25" else _SIZE
