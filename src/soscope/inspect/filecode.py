# SPDX-License-Identifier: Apache-2.0
"""The code of one image in a file, as whoever follows a call through it asks for it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.symbolarray import dynamic_table, static_table
from soscope.binfmt.source import length
from soscope.binfmt.spans import Spans
from soscope.errors import FormatError
from soscope.inspect.resolvers import BIONIC, GLIBC, MUSL

PIECE = 1 << 24  # bytes of code at once
_GP = 0x7FF0  # from the GOT to what MIPS code has in GP
OVERLAP = 64  # longer than what calls through a slot


class Function(NamedTuple):
    """A function; `size` is 0 where the file does not say."""

    vaddr: int
    size: int
    name: str


class FileCode:
    """One image. All addresses are link-time ones."""

    bits = 64
    order = "<"
    pointer = 0  # what code counts from, if no stub tells: GP of MIPS, the GOT of i386
    loader = ""  # a constant of inspect/resolvers.py, "" where the file does not tell

    def read(self, vaddr: int, size: int) -> bytes:
        """Return the bytes at an address, fewer where the file ends."""
        raise NotImplementedError

    def length(self) -> int:
        """Return how many bytes the image has in the file at most."""
        raise NotImplementedError

    def ranges(self) -> list[tuple[int, int, str]]:
        """Return (vaddr, size, section) of all code; section "" where there are none."""
        raise NotImplementedError

    def section(self, vaddr: int) -> str:
        """Return the name of the section at an address, "" for none."""
        raise NotImplementedError

    def functions(self) -> list[Function]:
        """Return the functions that the file names, by rising address."""
        raise NotImplementedError

    def cell(self, vaddr: int) -> str:
        """Say what the cell at an address is, where it is no slot: "" for nothing special."""
        raise NotImplementedError

    # ---- what all of them have ----

    _functions: list[Function] | None = None
    _code: Spans | None = None
    is_searched = True  # False once `pieces` has given up before the code's end

    def word(self, vaddr: int) -> int | None:
        """Return the address-sized number at an address, None where the file has none."""
        data = self.read(vaddr, self.bits // 8)
        if len(data) < self.bits // 8:
            return None
        return int.from_bytes(data, "little" if self.order == "<" else "big")

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Give all code in pieces that overlap a little; nothing twice beyond that."""
        # Segments of a hostile file may have the same bytes again and again.
        left = 2 * self.length() + PIECE
        done = 0
        for begin, size, _ in sorted(self.ranges()):
            end = begin + size
            if end <= done:
                continue
            skipped = max(0, done - begin - OVERLAP) // OVERLAP * OVERLAP
            done = end
            for vaddr in range(begin + skipped, end, PIECE):
                data = self.read(vaddr, min(PIECE + OVERLAP, end - vaddr))
                left -= len(data)
                self.is_searched = left >= 0
                if not self.is_searched:
                    return
                if not data:
                    break
                yield vaddr, data

    def is_code(self, vaddr: int) -> bool:
        """Say whether an address is one of code."""
        if self._code is None:
            self._code = Spans((start, start + size) for start, size, _ in self.ranges())
        return self._code.at(vaddr) is not None

    def function_at(self, vaddr: int) -> Function | None:
        """Return the function that holds an address, None where the file names none."""
        if self._functions is None:
            self._functions = self.functions()
        found = self._functions
        index = bisect_right(found, vaddr, key=lambda one: one.vaddr) - 1
        if index < 0:
            return None
        one = found[index]
        if one.size:
            return one if vaddr < one.vaddr + one.size else None
        # without a size it goes on to the next one, but not into another section
        return one if self.section(one.vaddr) == self.section(vaddr) else None


class ElfCode(FileCode):
    """An ELF image."""

    def __init__(self, found: ElfMap) -> None:
        self._map = found
        self.bits = found.bits
        self.order = found.image.encoding.order
        self.loader = _loader(found)
        # the first word that the loader fills: some have the resolver in front
        self._first = 0 if found.arch.startswith(("riscv", "mips")) else 1
        self.pointer = _pointer(found)

    def read(self, vaddr: int, size: int) -> bytes:
        """Return the bytes at an address."""
        image = self._map.image
        for one in image.segments:
            if one.type == c.PT_LOAD and 0 <= vaddr - one.vaddr < one.filesz:
                into = vaddr - one.vaddr
                return image.source.read(one.offset + into, min(size, one.filesz - into))
        return b""

    def length(self) -> int:
        """Return how long the file is."""
        return length(self._map.image.source)

    def ranges(self) -> list[tuple[int, int, str]]:
        """Return the sections of code or, without section headers, the segments."""
        found = [
            (one.vaddr, one.size, one.name)
            for one in self._map.sections.all
            if one.flags & c.SHF_EXECINSTR and one.type != c.SHT_NOBITS
        ]
        return found or [
            (one.vaddr, one.filesz, "")
            for one in self._map.image.segments
            if one.type == c.PT_LOAD and one.flags & c.PF_X
        ]

    def section(self, vaddr: int) -> str:
        """Return the name of the section at an address."""
        found = self._map.sections.containing(vaddr)
        return "" if found is None else found.name

    def functions(self) -> list[Function]:
        """Return the functions of .symtab, or else of the dynamic symbol table."""
        image = self._map.image
        for is_dynamic in (False, True):
            try:
                if is_dynamic:
                    table = dynamic_table(image)
                else:
                    table = static_table(image.source, self._map.sections, image.encoding)
            except FormatError:
                continue  # a damaged table names nothing
            found: dict[int, tuple[int, int]] = {}
            for name, info, section, value, size in table.rows():
                if info & 15 in (c.STT_FUNC, c.STT_GNU_IFUNC) and section != c.SHN_UNDEF:
                    found[value] = (size, name)
            if found:
                return sorted(
                    Function(self._entry(value), size, table.text(name))
                    for value, (size, name) in found.items()
                )
        return []

    def _entry(self, vaddr: int) -> int:
        """Return where a function begins: ELFv1's symbols are those of descriptors."""
        if self._map.arch != "ppc64" or self.section(vaddr) != ".opd":
            return vaddr
        return self.word(vaddr) or vaddr

    def cell(self, vaddr: int) -> str:
        """Name the words that the loader fills for PLT0."""
        listed = [one.vaddr for one in self._map.sections.all if one.name in (".got.plt", ".got")]
        told = self._map.tag(c.DT_PLTGOT)
        for base in [*([] if told is None else [told]), *listed]:
            index, rest = divmod(vaddr - base, self.bits // 8)
            if not rest and self._first <= index < 3:
                return f"GOT[{index}]"
        return ""


def _pointer(found: ElfMap) -> int:
    told = found.tag(c.DT_PLTGOT)
    if found.arch.startswith("mips"):
        return 0 if told is None else told + _GP
    if found.arch != "i386":
        return 0
    listed = {one.name: one.vaddr for one in found.sections.all}
    return told or listed.get(".got.plt") or listed.get(".got") or 0


def _loader(found: ElfMap) -> str:
    """Return which C library's loader binds the file, as far as it says so."""
    try:
        interpreter = found.image.interpreter or ""
    except FormatError:
        interpreter = ""
    name = interpreter.rpartition("/")[2]
    if name.startswith("ld-musl"):
        return MUSL
    if name in ("linker", "linker64"):
        return BIONIC
    if name.startswith(("ld-linux", "ld64.so", "ld-2.")):
        return GLIBC
    libraries = {*found.needed, *(one.library for one in found.slots if one.library)}
    if any(one.startswith("libc.musl-") for one in libraries):
        return MUSL
    if any(one.startswith(("libc.so.6", "ld-linux", "ld64.so")) for one in libraries):
        return GLIBC
    if "libc.so" in libraries:
        return BIONIC if any(one.version == "LIBC" for one in found.slots) else MUSL
    return ""
