# SPDX-License-Identifier: Apache-2.0
"""What dyld is told to bind, as linkers write it: opcodes (LC_DYLD_INFO) and chained pointers.

Written from <mach-o/loader.h> and <mach-o/fixup-chains.h>, for tests of the decoders.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

KEYS = ("IA", "IB", "DA", "DB")
SELF, EXECUTABLE, FLAT, WEAK = 0, -1, -2, -3  # library ordinals that name no library


class Bind(NamedTuple):
    """A pointer that is to hold the address of `symbol`, of library number `ordinal`.

    `signed` is key, diversity and whether the slot's address goes into the signature.
    """

    slot: int
    symbol: str
    ordinal: int
    weak_import: bool = False
    addend: int = 0
    signed: tuple[str, int, bool] | None = None


class Rebase(NamedTuple):
    """A pointer into the image itself."""

    slot: int
    target: int
    signed: tuple[str, int, bool] | None = None


def uleb(value: int) -> bytes:
    """Encode an unsigned number in groups of seven bits."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def sleb(value: int) -> bytes:
    """Encode a signed one."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value & 0x7F])


def _ordinal(number: int) -> bytes:
    if number <= 0:
        return bytes([0x30 | number & 0xF])
    return bytes([0x10 | number]) if number < 16 else b"\x20" + uleb(number)


def _symbol(bind: Bind) -> bytes:
    return bytes([0x40 | bind.weak_import]) + bind.symbol.encode() + b"\0"


def lazy_opcodes(
    binds: Iterable[Bind], segments: list[tuple[int, int]]
) -> tuple[bytes, dict[int, int]]:
    """Return the lazy bind stream, and for each slot where its record begins.

    `segments` are address and size of each, in the order of their load commands.
    """
    out, at = bytearray(), {}
    for bind in binds:
        at[bind.slot] = len(out)
        out += _place(bind.slot, segments) + _ordinal(bind.ordinal) + _symbol(bind) + b"\x90\0"
    return bytes(out), at


def _segment(slot: int, segments: list[tuple[int, int]]) -> int:
    return next(index for index, (addr, size) in enumerate(segments) if addr <= slot < addr + size)


def _place(slot: int, segments: list[tuple[int, int]]) -> bytes:
    index = _segment(slot, segments)
    return bytes([0x70 | index]) + uleb(slot - segments[index][0])


def opcodes(
    binds: Iterable[Bind], segments: list[tuple[int, int]], word: int, *, weak: bool = False
) -> bytes:
    """Return a bind stream that uses every shorthand that fits, as linkers do."""
    rows = list(binds)
    out, index = bytearray(b"\x51"), 0  # pointers
    where: int | None = None
    ordinal: int | None = None
    symbol: tuple[str, bool] | None = None
    addend = 0
    while index < len(rows):
        bind = rows[index]
        if not weak and bind.ordinal != ordinal:
            out += _ordinal(bind.ordinal)
            ordinal = bind.ordinal
        if (bind.symbol, bind.weak_import) != symbol:
            out += _symbol(bind)
            symbol = (bind.symbol, bind.weak_import)
        if bind.addend != addend:
            out += b"\x60" + sleb(bind.addend)
            addend = bind.addend
        if where is None or bind.slot < where:
            out += _place(bind.slot, segments)
        elif bind.slot != where:
            out += b"\x80" + uleb(bind.slot - where)
        where = bind.slot
        run = 1
        while index + run < len(rows) and rows[index + run] == bind._replace(
            slot=bind.slot + run * (gap := rows[index + 1].slot - bind.slot)
        ):
            run += 1
        if run > 2 and gap >= word:  # several at the same distance
            out += b"\xc0" + uleb(run) + uleb(gap - word)
            where += run * gap
            index += run
            continue
        after = rows[index + 1].slot if index + 1 < len(rows) else -1
        ahead = after - where - word
        if ahead < 0 or _segment(after, segments) != _segment(where, segments):
            out.append(0x90)
            where = None if after >= 0 and ahead >= 0 else where + word
        elif ahead % word == 0 and 0 < ahead // word < 16:
            out.append(0xB0 | ahead // word)
            where = after
        else:
            out += b"\xa0" + uleb(ahead) if ahead else b"\x90"
            where = after
        index += 1
    return bytes(out) + b"\0" if rows else b""


def rebase_opcodes(rebases: Iterable[Rebase], segments: list[tuple[int, int]]) -> bytes:
    """Return a rebase stream, one opcode for each pointer."""
    out = bytearray(b"\x11")
    for one in rebases:
        place = _place(one.slot, segments)
        out += bytes([0x20 | place[0] & 0xF]) + place[1:] + b"\x51"
    return bytes(out) + b"\0"


# ---- chained pointers ---------------------------------------------------------

ARM64E, PTR_64, PTR_32, PTR_64_OFFSET, ARM64E_KERNEL = 1, 2, 3, 6, 7
ARM64E_USERLAND, ARM64E_USERLAND24 = 9, 12
_SIGNED = {ARM64E, ARM64E_KERNEL, ARM64E_USERLAND, ARM64E_USERLAND24}
STRIDE = {ARM64E: 8, ARM64E_USERLAND: 8, ARM64E_USERLAND24: 8, ARM64E_KERNEL: 4}
_FURTHEST = {PTR_32: 31 * 4, PTR_64: 4095 * 4, PTR_64_OFFSET: 4095 * 4, ARM64E_KERNEL: 2047 * 4}


def pointer(form: int, one: Bind | Rebase, number: int, ahead: int, base: int) -> int:
    """Return the chained word of `one`, `ahead` bytes before the next one of its chain.

    `number` is the import's, `base` the image's preferred address.
    """
    step = ahead // STRIDE.get(form, 4)
    if form == PTR_32:
        if isinstance(one, Bind):
            return 1 << 31 | step << 26 | (one.addend & 0x3F) << 20 | number
        return step << 26 | one.target
    if form in _SIGNED:
        value = step << 51
        if one.signed is not None:
            key, diversity, by_address = one.signed
            value |= 1 << 63 | KEYS.index(key) << 49 | by_address << 48 | diversity << 32
        if isinstance(one, Bind):
            value |= 1 << 62 | number
            return value | (one.addend & 0x7FFFF) << 32 if one.signed is None else value
        absolute = form == ARM64E and one.signed is None
        return value | (one.target if absolute else one.target - base)
    if isinstance(one, Bind):
        return 1 << 63 | step << 51 | (one.addend & 0xFF) << 24 | number
    return step << 51 | (one.target if form == PTR_64 else one.target - base)


class Chained(NamedTuple):
    """The blob of LC_DYLD_CHAINED_FIXUPS, and the words that go into the segments."""

    blob: bytes
    words: dict[int, int]


def chain(
    fixups: list[Bind | Rebase],
    segments: list[tuple[int, int]],
    base: int,
    form: int,
    imports: int = 1,
    page: int = 0x4000,
) -> Chained:
    """Chain `fixups`: pointer format `form`, import format `imports` (1, 2, 3)."""
    keys: list[tuple[str, int, bool, int]] = []
    numbers: dict[int, int] = {}
    addends = {}
    for one in fixups:
        if isinstance(one, Bind):
            # What fits into the pointer stays there; the rest goes into the table.
            fits = 0 <= one.addend < 32 and one.signed is None
            apart = one.addend if imports > 1 and not fits else 0
            key = (one.symbol, one.ordinal, one.weak_import, apart)
            if key not in keys:
                keys.append(key)
            numbers[one.slot] = keys.index(key)
            addends[one.slot] = one.addend - apart
    places: list[list[Bind | Rebase]] = [[] for _ in segments]
    for one in sorted(fixups):
        for index, (addr, size) in enumerate(segments):
            if addr <= one.slot < addr + size:
                places[index].append(one)
    words: dict[int, int] = {}
    starts, infos = bytearray(), []
    room = 4 + 4 * len(segments)
    for (addr, size), inside in zip(segments, places, strict=True):
        starts += bytes(-(room + len(starts)) % 8)
        infos.append(room + len(starts) if inside else 0)
        if inside:
            starts += _starts(inside, addr, size, base, form, page)
        for one, after in zip(inside, [*inside[1:], None], strict=False):
            ahead = _ahead(one.slot, after.slot if after else None, addr, form, page)
            if isinstance(one, Bind):
                one = one._replace(addend=addends[one.slot])  # noqa: PLW2901  # the same bind, with its addend
            words[one.slot] = pointer(form, one, numbers.get(one.slot, 0), ahead, base)
    strings = bytearray(b"\0")
    table = bytearray()
    for name, ordinal, weak, addend in keys:
        table += _import(imports, ordinal, weak, len(strings), addend)
        strings += name.encode() + b"\0"
    head = struct.pack(f"<I{len(infos)}I", len(infos), *infos)
    where = 32 + len(head) + len(starts)
    where += -where % 8
    blob = struct.pack("<7I4x", 0, 32, where, where + len(table), len(keys), imports, 0)
    blob += head + starts
    blob += bytes(where - len(blob)) + table + strings
    return Chained(blob + bytes(-len(blob) % 8), words)


def _ahead(slot: int, after: int | None, addr: int, form: int, page: int) -> int:
    """Return the distance to the next pointer of the same chain, 0 at its end."""
    if after is None or (slot - addr) // page != (after - addr) // page:
        return 0
    return after - slot if after - slot <= _FURTHEST.get(form, 2047 * 8) else 0


def _starts(
    inside: list[Bind | Rebase], addr: int, size: int, base: int, form: int, page: int
) -> bytes:
    """Return the starts of one segment's chains; pages of 32-bit ones may have several."""
    count = -(-size // page)
    first: list[int] = []
    more: list[int] = []
    for number in range(count):
        begins, last = [], None
        for one in inside:
            if (one.slot - addr) // page == number:
                if last is None or not _ahead(last, one.slot, addr, form, page):
                    begins.append((one.slot - addr) % page)
                last = one.slot
        if not begins:
            first.append(0xFFFF)
        elif len(begins) == 1:
            first.append(begins[0])
        else:
            first.append(0x8000 | count + len(more))
            more += [*begins[:-1], begins[-1] | 0x8000]
    table = first + more
    size = 22 + 2 * len(table)
    limit = 0x4000000 if form == PTR_32 else 0
    head = struct.pack("<IHHQIH", size, page, form, addr - base, limit, count)
    return head + struct.pack(f"<{len(table)}H", *table)


def _import(form: int, ordinal: int, weak: bool, name: int, addend: int) -> bytes:
    if form == 3:
        return struct.pack("<HHIq", ordinal & 0xFFFF, weak, name, addend)
    first = struct.pack("<I", ordinal & 0xFF | weak << 8 | name << 9)
    return first if form == 1 else first + struct.pack("<i", addend)
