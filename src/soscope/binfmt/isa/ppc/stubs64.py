# SPDX-License-Identifier: Apache-2.0
"""Stubs on 64-bit PowerPC, ELFv1 and ELFv2, in both byte orders.

The linker puts stubs among the functions, one group for all code within reach. A stub addresses
its slot by the distance from the TOC pointer, %r2, or from itself (GNU ld, elf64-ppc.c:
build_plt_stub; the OpenPOWER ABI, "Procedure Linkage Table"). Code that loads a slot without a
stub, as compiled with -fno-plt, ends with a call and is not a stub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.isa.ppc.toc import pointer_at, toc_pointers
from soscope.binfmt.stubs.table import Code, FoundStub, SlotTable
from soscope.binfmt.stubs.words import big_endian, branches, signed
from soscope.model.filemap import CALL_STUB, IPLT

_BCTR = rb"\x4e\x80\x04\x20"
# mtctr %r12 (%r11 before GNU ld 2.22); loads of the rest of an ELFv1 descriptor, and a barrier
# before them; then bctr, or bctr only if the slot is filled, or, in a stub that checks whether a
# thread-local block exists already, a call
_LEAVE = re.compile(
    rb"\x7d[\x89\x69]\x03\xa6"
    rb"(?:\x38\x42..|\x39\x6b..|\x7d\x8b\x62\x78|\x7c\x42\x5a\x14|\x7d\x82\x62\x78|\x7d\x6b\x12\x14"
    rb"|[\xe8\xe9][\x42\x4b\x4c\x62\x6b\x6c]..){0,6}"
    rb"(?:" + _BCTR + rb"|\x28\x22\0\0\x4c\xe2\x04\x20[\x48-\x4b]...|(?P<call>\x4e\x80\x04\x21))",
    re.DOTALL,
)
# ld %r0, 0(%r3); ld %r12, 8(%r3); cmpdi %r0, 0; mr %r0, %r3; add %r3, %r12, %r13; beqlr; mr %r3,
# %r0; then the return address is saved
_TLS = re.compile(
    rb"[\xe8\xe9][\x03\x63]\0\0\xe9\x83\0\x08\x2c[\x20\x2b]\0\0\x7c\x60\x1b\x78\x7c\x6c\x6a\x14"
    rb"\x4d\x82\0\x20\x7c\x03\x03\x78(?:.{4}){0,16}\Z",
    re.DOTALL,
)
_TLS_END = b"\x7c\x03\x03\x78"
_SAVE = rb"(?:\xf8\x41\0[\x18\x28])?"  # std %r2, into the caller's frame
_SAVED = re.compile(rb"\xf8\x41\0[\x18\x28]")
# an instruction that does not go on to the next, or filling: blr, bctr, b, nop, trap, zeros
_AWAY = re.compile(
    rb"\x4e\x80[\0\x04]\x20|[\x48-\x4b]..[^\x01\x03]|\x60\0\0\0|\x7f\xe0\0\x08|\0{4}",
    re.DOTALL,
)
_LOAD = re.compile(
    # ld %r12, near(%r2)
    rb"(?:" + _SAVE + rb"\xe9(?:\x82|\x62)(?P<near>..)(?:\x38\x42..)?"
    # addis %r11 or %r12, %r2, high; ld %r12, low(that)
    + rb"|" + _SAVE + rb"\x3d[\x62\x82](?P<high>..)" + _SAVE
    + rb"\xe9[\x8b\x8c\x6c](?P<low>..)(?:\x39\x6b..)?"
    # pld %r12, distance
    + rb"|" + _SAVE + rb"(?:\x60\0\0\0)?(?P<prefix>\x04[\x10-\x13]..)\xe5\x80(?P<suffix>..)"
    # mflr %r12; bcl 20, 31, .+4; mflr %r11; mtlr %r12; [addis %r12, %r11, high;] ld %r12, low(that)
    + rb"|" + _SAVE + rb"\x7d\x88\x02\xa6\x42\x9f\0\x05(?P<here>\x7d\x68\x02\xa6\x7d\x88\x03\xa6)"
    + rb"(?:\x3d\x8b(?P<above>..)\xe9\x8c|\xe9\x8b)(?P<beside>..)"
    # addis %r12, %r12, high; ld %r12, low(%r12): a stub that serves as a function's address
    + rb"|\x3d\x8c(?P<own>..)\xe9\x8c(?P<rest>..)"
    + rb")\Z",
    re.DOTALL,
)  # fmt: skip
_BEFORE = 48  # bytes of the longest code that loads a slot
_BEFORE_TLS = 96  # … and that checks for the block
_KEY = "branched to"
_MASK = (1 << 64) - 1


def find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data = big_endian(code.data, table.image.encoding.order)
    pointers = toc_pointers(table)
    for leave in _LEAVE.finditer(data):
        at = leave.start()
        if code.vaddr + at & 3:
            continue
        first = max(0, at - _BEFORE)
        load = _LOAD.search(data[first:at])
        if load is None:
            continue
        start = first + load.start()
        tls = _tls(data, start)
        if tls is None and leave["call"] is not None:
            continue
        start = start if tls is None else tls
        vaddr = code.vaddr + start
        if vaddr & 3:
            continue
        slots = _slots_of(code.vaddr + first, load, vaddr, pointers, table)
        if not slots or (tls is None and not _is_reached(code.vaddr, data, start, load, table)):
            continue
        if len(slots) == 1:
            kind = IPLT if table.slots[slots[0]] else CALL_STUB
            yield FoundStub(vaddr, leave.end() - start, slots[0], kind)
        else:
            table.say("call stubs whose TOC pointer is one of several: they have no slot")
            yield FoundStub(vaddr, leave.end() - start, 0, CALL_STUB)


def in_place(code: Code, table: SlotTable) -> Iterator[tuple[int, int, int]]:
    """Yield (vaddr, size, slot) of all code that loads a slot and goes to it, stub or not.

    `vaddr` is the address behind the load of the slot. `size` is the distance to the end of the
    call, 0 if the code does not return there.
    """
    data = big_endian(code.data, table.image.encoding.order)
    pointers = toc_pointers(table)
    for leave in _LEAVE.finditer(data):
        at = leave.start()
        first = max(0, at - _BEFORE)
        load = None if code.vaddr + at & 3 else _LOAD.search(data[first:at])
        if load is None or _tls(data, first + load.start()) is not None:
            continue
        vaddr = code.vaddr + first + load.start()
        slots = _slots_of(code.vaddr + first, load, vaddr, pointers, table)
        if len(slots) == 1:
            size = 0 if leave["call"] is None else leave.end() - at
            yield code.vaddr + at, size, slots[0]
        elif slots:
            table.say("calls through slots whose TOC pointer is one of several")


def _slots_of(
    base: int, load: re.Match[bytes], vaddr: int, pointers: tuple[int, ...], table: SlotTable
) -> list[int]:
    """Return the slots that `load` may load; `base` is the address of its bytes."""
    if load["near"] is None and load["high"] is None:
        slots = [_beside(base, load)]
    else:
        distance = _distance(load)
        told = _pointer(vaddr, pointers, table)
        slots = [pointer + distance & _MASK for pointer in (pointers if told is None else (told,))]
    return [slot for slot in slots if slot in table.slots]


def _tls(data: bytes, start: int) -> int | None:
    """Return the start of a stub that first checks for a thread-local block, None if it is none."""
    first = max(0, start - _BEFORE_TLS)
    if data.find(_TLS_END, first, start) < 0:
        return None
    match = _TLS.search(data[first:start])
    return None if match is None else first + match.start()


def _is_reached(
    base: int, data: bytes, start: int, load: re.Match[bytes], table: SlotTable
) -> bool:
    """Return whether the code is a stub, not the end of a function that calls in place.

    The end of a function may have the same instructions, but it does not save %r2, the code above
    runs into it, and no branch leads there.
    """
    if load["own"] is not None or _SAVED.search(load[0]) is not None:
        return True
    if start and _AWAY.match(data, start - 4) is None:
        return False
    return base + start in _callers(table)


def _pointer(vaddr: int, pointers: tuple[int, ...], table: SlotTable) -> int | None:
    """Return the TOC pointer of the callers of a stub, None if they do not tell a single one."""
    if len(pointers) < 2:
        return None
    told = {pointer_at(table, place) for place in _callers(table).get(vaddr, ())} - {None}
    return told.pop() if len(told) == 1 else None


def _callers(table: SlotTable) -> dict[int, list[int]]:
    """Return target -> addresses of the branches to it."""
    known: dict[int, list[int]] | None = table.notes.get(_KEY)
    if known is None:
        from soscope.binfmt.stubs.finder import all_code

        known = table.notes[_KEY] = {}
        order = table.image.encoding.order
        for code in all_code(table):
            for place, target in branches(code.vaddr, big_endian(code.data, order)):
                known.setdefault(target, []).append(place)
    return known


def _distance(load: re.Match[bytes]) -> int:
    """Return the distance from the TOC pointer to the slot."""
    if load["near"] is not None:
        return signed(load["near"]) & ~3
    return (signed(load["high"]) << 16) + (signed(load["low"]) & ~3)


def _beside(base: int, load: re.Match[bytes]) -> int:
    """Return the slot that a stub addresses by the distance from itself."""
    if load["own"] is not None:
        far = (signed(load["own"]) << 16) + (signed(load["rest"]) & ~3)
        return base + load.start() + far & _MASK
    if load["prefix"] is None:
        above = 0 if load["above"] is None else signed(load["above"]) << 16
        return base + load.start("here") + above + (signed(load["beside"]) & ~3) & _MASK
    high = int.from_bytes(load["prefix"], "big") & 0x3FFFF
    distance = high << 16 | int.from_bytes(load["suffix"], "big")
    if distance >> 33:
        distance -= 1 << 34
    return base + load.start("prefix") + distance & _MASK
