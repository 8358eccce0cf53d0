# SPDX-License-Identifier: Apache-2.0
"""The linker's stubs in code of x86-64 and i386, as GNU ld, gold, LLD and mold write them.

x86-64 and i386 psABI, "Procedure Linkage Table". Code counts as a stub only if it jumps through a
slot that a relocation fills. A stub is aligned to its size, 8 or 16 bytes; a stub with an index
beside its jump may be anywhere. On x86-64 it addresses its slot by a displacement from the end of
an instruction. On i386 it does so by address or, in position-independent code, by the distance
from _GLOBAL_OFFSET_TABLE_, which %ebx holds.

Attaching to a process uses this module, so it imports nothing that would delay the start.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from struct import Struct

# Forms of stubs: with a lazy half behind the jump, without one, or with a return as its jump.
LAZY = "lazy"
SHORT = "short"  # 8 bytes long
FULL = "full"  # 16 bytes long
RETURN = "return"

Row = tuple[int, int, int, str]  # vaddr, size, slot, form

# [endbr64] [mov $index, %r11d] [bnd] jmp *disp(%rip). It is tried at every byte, so that no chance
# match within one hides the next.
_JUMP_64 = re.compile(
    rb"(?=((?:\xf3\x0f\x1e\xfa)?(?:\x41\xbb.{4})?\xf2?\xff\x25(.{4})))", re.DOTALL
)
# mov disp(%rip), %r11; call or jmp to code that jumps by a return. The bytes behind it distinguish
# it from code that only loads the slot: they are the lazy half, or filling up to the next stub.
_RETURN_64 = re.compile(
    rb"(?=(\x4c\x8b\x1d(.{4}))(?:\xe8.{4}\xe9.{4}\x68.{4}\xe9|\xe9.{4}\xcc{4}))", re.DOTALL
)
# [endbr32] [mov $index, %ecx] jmp *addr, or jmp *disp(%ebx)
_JUMP_32 = re.compile(
    rb"(?=((?:\xf3\x0f\x1e\xfb)?(?:\xb9.{4})?\xf2?\xff([\x25\xa3])(.{4})))", re.DOTALL
)
# push %eax; mov addr, %eax or mov disp(%ebx), %eax; call to code that jumps by a return
_RETURN_32 = re.compile(
    rb"(?=(\x50(?:\xa1|\x8b(\x83))(.{4}))\xe8.{4}\xe9.{4}\x68.{4}\xe9)", re.DOTALL
)
# bytes behind the jump: the lazy half, or filling up to the next stub
_LAZY = re.compile(rb"\x68.{4}\xf2?\xe9", re.DOTALL)
_FILLED = re.compile(
    rb"\x66?\x90|\x66?\x0f\x1f[\0\x40\x44\x80\x84]|\xcc|\0\0|\x8d[\x74\xb4]\x26", re.DOTALL
)
# [endbr] push $argument
PUSHED = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?\x68(.{4})", re.DOTALL)
# … [bnd] jmp PLT0
LAZY_HALF = re.compile(PUSHED.pattern + rb"\xf2?\xe9", re.DOTALL)
# mold: [endbr] mov $argument, %r11d or %ecx, in the stub
MOVED = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?(?:\x41\xbb|\xb9)(.{4})", re.DOTALL)
# [endbr; push %r11] push GOT[1]; [bnd] jmp *GOT[2]
FIRST_STUB = re.compile(
    rb"(?:\xf3\x0f\x1e\xfa\x41\x53)?\xff[\x35\xb3].{4}\xf2?\xff[\x25\xa3]"
    # mold, i386: endbr; push %ecx; lea GOT[1], %ecx; push (%ecx); jmp *4(%ecx)
    rb"|\xf3\x0f\x1e\xfb\x51(?:\x8d\x8b|\xb9).{4}\xff\x31\xff\x61\x04",
    re.DOTALL,
)
# a lazy stub that also has the index: jmp *disp(%ebx); push $offset, or with mold in reverse order
_TOLD = re.compile(rb"\xff\xa3(.{4})\x68(.{4})|\xb9(.{4})\xff\xa3(.{4})", re.DOTALL)
# call to the next instruction, or to a function that loads its return address into %ebx; [pop
# %ebx]; add $distance, %ebx
_LOADED = re.compile(rb"\xe8.{4}(\x5b?)\x81\xc3(.{4})", re.DOTALL)
# entries of nearly all PLTs of x86-64, and the push at the start of the first stub:
_ENTRY_64 = Struct("<HiBIBi")  # jmp *disp(%rip); push $index; jmp to the first
_SECOND_64 = Struct("<IHi6s")  # endbr64; jmp *disp(%rip); nopw 0(%rax,%rax)
_ENDBR_64, _NOPW = 0xFA1E0FF3, b"\x66\x0f\x1f\x44\0\0"
_JMP_64, _PUSH, _JMP = 0x25FF, 0x68, 0xE9
_FIRST = (b"\xff\x35", b"\xff\xb3")  # push GOT[1], in front of the jump of the first stub
_BY_ADDRESS = b"\x25"
_SHORT = 8
SIZE = _FULL = 16  # bytes of most stubs
_LONG = 32
_REL = 8  # bytes of a relocation of i386
_MASK_64 = (1 << 64) - 1
_MASK_32 = (1 << 32) - 1


def regular_64(data: bytes, base: int) -> tuple[list[tuple[int, int]], str] | None:
    """Return (vaddr, slot) of each stub of a section at `base`, and the form of all of them.

    Return None if the stubs differ in form or have gaps. `stubs_64` handles all cases, but
    slowly.
    """
    if len(data) % _FULL:
        return None
    starts = range(base, base + len(data), _FULL)
    if data[:2] == b"\xff\x35":
        entries = list(_ENTRY_64.iter_unpack(data))[1:]
        places = [
            (start, start + 6 + distance & _MASK_64)
            for start, (jump, distance, push, _, back, _) in zip(starts[1:], entries, strict=True)
            if jump == _JMP_64 and push == _PUSH and back == _JMP
        ]
        return (places, LAZY) if len(places) == len(entries) else None
    if data[:6] == b"\xf3\x0f\x1e\xfa\xff\x25":
        places = [
            (start, start + 10 + distance & _MASK_64)
            for start, (endbr, jump, distance, fill) in zip(
                starts, _SECOND_64.iter_unpack(data), strict=True
            )
            if endbr == _ENDBR_64 and jump == _JMP_64 and fill == _NOPW
        ]
        return (places, FULL) if len(places) == len(starts) else None
    return None


def stubs_64(
    data: bytes, base: int, slots: Container[int], origin: int, *, is_plt: bool
) -> Iterator[Row]:
    """Yield the stubs in code at `base`; stubs that jump by a return come last.

    Stubs are aligned as their section, which begins at `origin`, 0 if that is not known. In a
    section of stubs (`is_plt`), stubs without a slot are included, too.
    """
    from_bytes = int.from_bytes
    free = 0  # end of the last stub
    for match in _JUMP_64.finditer(data):
        at, end = match.span(1)
        start = base + at
        if at < free or (start - origin & 7 and not _is_sure(data, at, end)):
            continue
        slot = base + end + from_bytes(match[2], "little", signed=True) & _MASK_64
        if is_plt or slot in slots:
            size, form = _form(data, at, end, start - origin)
            if size:
                free = at + size
                yield start, size, slot, form
    for match in _RETURN_64.finditer(data):
        start, end = base + match.start(), match.end(1)
        slot = base + end + from_bytes(match[2], "little", signed=True) & _MASK_64
        if not start - origin & 15 and (is_plt or slot in slots):
            yield start, _LONG if data[end] == 0xE8 else _FULL, slot, RETURN


def stubs_32(
    data: bytes, base: int, slots: Container[int], origin: int, got: int, *, is_plt: bool
) -> Iterator[Row]:
    """Yield the stubs as `stubs_64` does; distances count from `got`."""
    from_bytes = int.from_bytes
    free = 0
    for match in _JUMP_32.finditer(data):
        at, end = match.span(1)
        start = base + at
        if at < free or (start - origin & 7 and not _is_sure(data, at, end)):
            continue
        slot = from_bytes(match[3], "little")
        if match[2] != _BY_ADDRESS:
            slot = slot + got & _MASK_32
        if is_plt or slot in slots:
            size, form = _form(data, at, end, start - origin)
            if size:
                free = at + size
                yield start, size, slot, form
    for match in _RETURN_32.finditer(data):
        start = base + match.start()
        slot = from_bytes(match[3], "little")
        if match[2] is not None:
            slot = slot + got & _MASK_32
        if not start - origin & 15 and (is_plt or slot in slots):
            yield start, _LONG, slot, RETURN


def _is_sure(data: bytes, at: int, end: int) -> bool:
    """Return whether a jump through a slot has an index beside it, and so is a stub anywhere."""
    return end - at >= _FULL - 1 or _LAZY.match(data, end) is not None


def _form(data: bytes, at: int, end: int, place: int) -> tuple[int, str]:
    """Return size and form of a stub from `at` to the `end` of its jump, size 0 if it is none.

    `place` is its distance from the start of its section.
    """
    if _LAZY.match(data, end):
        return _FULL, LAZY
    if end - at >= _FULL - 1:  # mold's stubs have an index, and no filling
        return _FULL, FULL
    if end < len(data) and not _FILLED.match(data, end):
        return 0, ""
    if end - at <= _SHORT and (place & 15 or _is_short(data, at, end)):
        return _SHORT, SHORT
    return (0, "") if place & 15 else (_FULL, FULL)


def _is_short(data: bytes, at: int, end: int) -> bool:
    """Return whether a stub is filled up to only 8 bytes."""
    following = data[at + _SHORT : at + _SHORT + 3]
    return (
        data[end : at + _SHORT] in (b"\x66\x90", b"\x90")
        or following[:2] in (b"\xff\x25", b"\xff\xa3")
        or following == b"\xf2\xff\x25"
    )


def told_got(data: bytes, calls: Sequence[int]) -> int | None:
    """Return the base address of distances, computed from lazy stubs of i386.

    Such a stub also has the offset of its relocation. `calls` are the slots of DT_JMPREL in
    order. Return None if there is no such stub.
    """
    votes: dict[int, int] = {}
    for match in _TOLD.finditer(data):
        distance = int.from_bytes(match[1] or match[4], "little")
        index, left = divmod(int.from_bytes(match[2] or match[3], "little"), _REL)
        if not left and index < len(calls):
            got = calls[index] - distance & _MASK_32
            votes[got] = votes.get(got, 0) + 1
    return max(votes, key=lambda got: votes[got]) if votes else None


def loaded_got(data: bytes, base: int) -> int | None:
    """Return the address that most functions of i386 code at `base` load into %ebx, or None."""
    votes: dict[int, int] = {}
    for match in _LOADED.finditer(data):
        got = base + match.start(1) + int.from_bytes(match[2], "little") & _MASK_32
        votes[got] = votes.get(got, 0) + 1
    return max(votes, key=lambda got: votes[got]) if votes else None


def fitting_got(data: bytes, slots: Container[int], bases: Sequence[int]) -> int:
    """Return the first of `bases` with which the largest number of stubs lead to slots."""
    if len(bases) < 2:
        return bases[0] if bases else 0
    distances = [
        int.from_bytes(match[3], "little")
        for match in _JUMP_32.finditer(data)
        if match[2] != _BY_ADDRESS and data[max(match.start() - 6, 0) :][:2] not in _FIRST
    ]

    def fitting(base: int) -> int:
        return sum(base + distance & _MASK_32 in slots for distance in distances)

    return max(bases, key=fitting)
