# SPDX-License-Identifier: Apache-2.0
"""The linker's stubs on x86-64 and i386: code that jumps to where a slot of the image says.

A stub is told from other code by what it jumps through: only a slot that a relocation fills makes
it one. The forms are those of GNU ld (with and without IBT and BND), gold, LLD and mold.
"""

from __future__ import annotations

import re

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.encoding import broken, take
from soscope.binfmt.elf.reader import ElfReader
from soscope.binfmt.elf.sections import Sections
from soscope.errors import FormatError

_MAX_BYTES = 1 << 30
_LONGEST = 32
_STARTS = (16, 8)  # stubs of a kind lie next to each other, each aligned to its size

# [endbr] [mov $index, %r11d] [bnd] jmp *disp(%rip), and what fills the stub
_AFTER = rb"(?=\x68.{4}\xf2?\xe9|\x66?\x90|\x66?\x0f\x1f\x44\0\0|\xcc|\0\0)"
_JUMP_64 = re.compile(
    rb"(?:\xf3\x0f\x1e\xfa)?(?:\x41\xbb.{4})?\xf2?\xff\x25(.{4})" + _AFTER, re.DOTALL
)
_JUMP_64_INDEX = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\x41\xbb.{4}\xf2?\xff\x25(.{4})", re.DOTALL)
# [endbr] [mov $index, %ecx] jmp *addr, or jmp *disp(%ebx)
_JUMP_32 = re.compile(
    rb"(?:\xf3\x0f\x1e\xfb)?(?:\xb9.{4})?\xff([\x25\xa3])(.{4})" + _AFTER, re.DOTALL
)
_THROUGH_GOT = re.compile(rb"\xff\xa3(.{4})", re.DOTALL)
# [endbr] push $index; [bnd] jmp PLT0: the slot is that of a relocation
_PUSH = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?\x68(.{4})\xf2?\xe9", re.DOTALL)
# [endbr; push %r11] push GOT[1]; [bnd] jmp *GOT[2]
_FIRST = re.compile(
    rb"(?:\xf3\x0f\x1e\xfa\x41\x53)?\xff[\x35\xb3].{4}\xf2?\xff[\x25\xa3]"
    # mold, i386: endbr; push %ecx; lea GOT[1], %ecx; push (%ecx); jmp *4(%ecx)
    rb"|\xf3\x0f\x1e\xfb\x51(?:\x8d\x8b|\xb9).{4}\xff\x31\xff\x61\x04",
    re.DOTALL,
)


# what stands between functions: nops of every length, int3, zeros
_PADDING = re.compile(
    rb"(?:\x66|\x2e)*(?:\x90|\x0f\x1f(?:\0|\x40\0|\x44\0\0|\x80\0{4}|\x84\0{5}))|\xcc|\0"
    rb"|\x8d[\x74\xb4]\x26\0*|\x8d\xb6\0{4}|\x8d\x76\0",
    re.DOTALL,
)


def is_lazy(code: bytes) -> bool:
    """Say whether code leads into the loader's resolver: what an unbound slot holds.

    `push $index` or, with mold, the first stub itself: `push GOT[1]`; before either may stand
    endbr.
    """
    rest = code[4:] if code[:3] == b"\xf3\x0f\x1e" else code
    if rest[:1] == b"\x68" or _FIRST.match(code) is not None:
        return True
    return any(rest[at : at + 2] in (b"\xff\x35", b"\xff\xb3") for at in range(5))


def is_padding(code: bytes, at: int) -> bool:
    """Say whether the byte at `at` is filling, if `code` begins behind a function."""
    place = 0
    while place <= at:
        found = _PADDING.match(code, place)
        if found is None:
            return False
        place = found.end()
    return True


class Stub:
    """One stub at the link-time address `vaddr`, `size` bytes of it.

    `slot` is the vaddr of its slot and `symbol` the index of the dynamic symbol that is
    bound there, 0 for an IFUNC without a name. `slot` is 0 for the one in front of the others,
    which calls the loader.
    """

    __slots__ = ("size", "slot", "symbol", "vaddr")

    def __init__(self, vaddr: int, size: int, slot: int, symbol: int) -> None:
        self.vaddr = vaddr
        self.size = size
        self.slot = slot
        self.symbol = symbol


class Stubs:
    """The stubs of one image; its relocations are read once."""

    __slots__ = ("_calls", "_got", "_image", "_places", "_sections", "_slots")

    def __init__(self, image: ElfReader, sections: Sections | None = None) -> None:
        """Read the slots; `sections` say where stubs lie, without them they may lie anywhere.

        Raises FormatError where the relocations are not all there.
        """
        self._image = image
        self._sections = sections
        self._got: int | None = None
        self._places = [
            (one.vaddr, one.vaddr + one.size)
            for one in ([] if sections is None else sections.all)
            if one.name.startswith((".plt", ".iplt"))
        ]
        self._calls: list[tuple[int, int]] = []
        self._slots: dict[int, int] = {}
        for table, size, rela in (
            (c.DT_RELA, c.DT_RELASZ, True),
            (c.DT_REL, c.DT_RELSZ, False),
            (c.DT_JMPREL, c.DT_PLTRELSZ, image.dynamic.get(c.DT_PLTREL) == c.DT_RELA),
        ):
            rows = _read(image, table, size, rela=rela)
            self._slots.update(rows)
            if table == c.DT_JMPREL:
                self._calls = rows

    def at(self, vaddr: int) -> Stub | None:
        """Return the stub that holds the link-time address `vaddr`, None where none does."""
        if self._places and not any(start <= vaddr < end for start, end in self._places):
            return None
        for align in _STARTS:
            start = vaddr & -align
            code = self._code(start)
            stub = self._decode(start, code)
            if stub is not None and vaddr < stub.vaddr + stub.size:
                return stub
        return None

    def _code(self, vaddr: int) -> bytes:
        try:
            return self._image.source.read(self._image.locate(vaddr), _LONGEST)
        except FormatError:
            return b""

    def _decode(self, vaddr: int, code: bytes) -> Stub | None:
        is_64 = self._image.encoding.bits == 64
        if is_64:
            found = _JUMP_64.match(code) or _JUMP_64_INDEX.match(code)
        else:
            found = _JUMP_32.match(code)
        if found is not None:
            slot = self._slot_64(vaddr, found) if is_64 else self._slot_32(found)
            if slot in self._slots:
                return Stub(vaddr, _size(code, found.end()), slot, self._slots[slot])
            return None
        found = _PUSH.match(code)
        if found is not None:
            step = 1 if is_64 else self._image.encoding.rel.size
            index, left = divmod(int.from_bytes(found[1], "little"), step)
            if not left and index < len(self._calls):
                return Stub(vaddr, 16, *self._calls[index])
            return None
        if _FIRST.match(code) is not None and self._follows(vaddr):
            return Stub(vaddr, 16, 0, 0)
        return None

    def _follows(self, vaddr: int) -> bool:
        """Say whether a stub with a slot lies behind the one at `vaddr`, which has none."""
        for start in (vaddr + 16, vaddr + 32):
            code = self._code(start)
            if _FIRST.match(code) is None:
                stub = self._decode(start, code)
                if stub is not None:
                    return True
        return False

    def _slot_64(self, vaddr: int, found: re.Match[bytes]) -> int:
        distance = int.from_bytes(found[1], "little", signed=True)
        return vaddr + found.end() + distance & (1 << 64) - 1

    def _slot_32(self, found: re.Match[bytes]) -> int:
        value = int.from_bytes(found[2], "little")
        return value if found[1] == b"\x25" else self.got + value & 0xFFFF_FFFF

    @property
    def got(self) -> int:
        """The link-time address that position-independent code for i386 counts from, 0: unknown.

        That is _GLOBAL_OFFSET_TABLE_: DT_PLTGOT, but mold puts it at the beginning of .got. The
        stubs decide: they lead to slots.
        """
        if self._got is None:
            told = self._image.dynamic.get(c.DT_PLTGOT) or 0
            if told and self._image.is_mapped and told >= self._image.load_bias:
                told -= self._image.load_bias
            listed = [] if self._sections is None else self._sections.all
            bases = [told, *(one.vaddr for one in listed if one.name in (".got", ".got.plt"))]
            numbers = self._distances() if len(set(bases)) > 1 else []

            def fitting(base: int) -> int:
                return sum(base + one & 0xFFFF_FFFF in self._slots for one in numbers)

            self._got = max(bases, key=fitting)  # the first of several that fit as well
        return self._got

    def _distances(self) -> list[int]:
        """Return the distances from the GOT that stubs jump through."""
        found: list[int] = []
        for start, end in self._places:
            try:
                code = self._image.source.read(self._image.locate(start), end - start)
            except FormatError:
                continue
            found += [int.from_bytes(one[1], "little") for one in _THROUGH_GOT.finditer(code)]
        return found


def _size(code: bytes, end: int) -> int:
    """Return the size of a stub whose jump ends at `end`: the short ones are only padded."""
    return 8 if end <= 7 and code[end : end + 1] != b"\x68" and _is_padding(code[end:8]) else 16


def _is_padding(code: bytes) -> bool:
    return code in {b"\x66\x90", b"\x90", b"\xcc\xcc", b"\xcc", b"\0\0"}


def _read(image: ElfReader, table: int, size: int, *, rela: bool) -> list[tuple[int, int]]:
    """Return (vaddr of the slot, index of its symbol) of every relocation of a table."""
    at, length = image.locate_pointer(table), image.dynamic.get(size)
    if at is None or not length:
        return []
    layout = image.encoding.rela if rela else image.encoding.rel
    if length > _MAX_BYTES:
        raise broken(image.source, "relocations", at, f"{length} bytes")
    data = take(image.source, at, length // layout.size * layout.size, "relocations")
    shift = 32 if image.encoding.bits == 64 else 8
    return [(row[0], row[1] >> shift) for row in layout.iter_unpack(data)]
