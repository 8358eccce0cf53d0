# SPDX-License-Identifier: Apache-2.0
"""The code of one image in a file, for following a call through it."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.symboltable import dynamic_table, static_table
from soscope.binfmt.search import Spans
from soscope.binfmt.source import length
from soscope.errors import FormatError
from soscope.inspect.explain.resolvers import BIONIC, GLIBC, MUSL, first_word, pointer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE = 1 << 24  # bytes of code in one read
OVERLAP = 64  # bytes; no call through a slot is longer


class FileFunction(NamedTuple):
    """A function; `size` is 0 if the file does not have it."""

    vaddr: int
    size: int
    name: str


class FileCode:
    """One image; all addresses are link-time addresses."""

    bits = 64
    order = "<"
    pointer = 0  # base of code, if no stub tells it: GP of MIPS, the GOT of i386
    loader = ""  # a constant of `resolvers`, "" if the file does not tell

    def read(self, vaddr: int, size: int) -> bytes:
        """Return the bytes at an address, fewer at the end of the file."""
        raise NotImplementedError

    def length(self) -> int:
        """Return the maximum number of bytes that the image has in the file."""
        raise NotImplementedError

    def ranges(self) -> list[tuple[int, int, str]]:
        """Return (vaddr, size, section) of all code; the section is "" if there are no sections."""
        raise NotImplementedError

    def section(self, vaddr: int) -> str:
        """Return the name of the section at an address, "" if there is none."""
        raise NotImplementedError

    def functions(self) -> list[FileFunction]:
        """Return the functions named in the file, by rising address."""
        raise NotImplementedError

    def cell(self, vaddr: int) -> str:
        """Return a description of a cell that is not a slot, "" if it is nothing special."""
        raise NotImplementedError

    # ---- common to all formats ----

    _functions: list[FileFunction] | None = None
    _code: Spans | None = None
    is_searched = True  # False if `pieces` stopped before the end of the code

    def word(self, vaddr: int) -> int | None:
        """Return the address-sized number at an address, None if the file has none."""
        data = self.read(vaddr, self.bits // 8)
        if len(data) < self.bits // 8:
            return None
        return int.from_bytes(data, "little" if self.order == "<" else "big")

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield all code in pieces that overlap a little."""
        # In a hostile file, segments may contain the same bytes again and again.
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
        """Return whether there is code at an address."""
        if self._code is None:
            self._code = Spans((start, start + size) for start, size, _ in self.ranges())
        return self._code.at(vaddr) is not None

    def function_at(self, vaddr: int) -> FileFunction | None:
        """Return the function that contains an address, None if the file names none."""
        if self._functions is None:
            self._functions = self.functions()
        functions = self._functions
        index = bisect_right(functions, vaddr, key=lambda function: function.vaddr) - 1
        if index < 0:
            return None
        function = functions[index]
        if function.size:
            return function if vaddr < function.vaddr + function.size else None
        # without a size it extends to the next function, but not into another section
        return function if self.section(function.vaddr) == self.section(vaddr) else None


class ElfCode(FileCode):
    """The code of an ELF image."""

    def __init__(self, elf: ElfMap) -> None:
        self._map = elf
        self.bits = elf.bits
        self.order = elf.image.encoding.order
        self.loader = _loader(elf)
        self._first = first_word(elf.machine)
        self.pointer = pointer_of(elf)

    def read(self, vaddr: int, size: int) -> bytes:
        """Return the bytes at an address."""
        image = self._map.image
        for segment in image.segments:
            if segment.type == c.PT_LOAD and 0 <= vaddr - segment.vaddr < segment.filesz:
                into = vaddr - segment.vaddr
                return image.source.read(segment.offset + into, min(size, segment.filesz - into))
        return b""

    def length(self) -> int:
        """Return the length of the file."""
        return length(self._map.image.source)

    def ranges(self) -> list[tuple[int, int, str]]:
        """Return the sections with code; without section headers, the segments."""
        sections = [
            (section.vaddr, section.size, section.name)
            for section in self._map.sections.all
            if section.flags & c.SHF_EXECINSTR and section.type != c.SHT_NOBITS
        ]
        return sections or [
            (segment.vaddr, segment.filesz, "")
            for segment in self._map.image.segments
            if segment.type == c.PT_LOAD and segment.flags & c.PF_X
        ]

    def section(self, vaddr: int) -> str:
        """Return the name of the section at an address."""
        section = self._map.sections.containing(vaddr)
        return "" if section is None else section.name

    def functions(self) -> list[FileFunction]:
        """Return the functions in .symtab, else in the dynamic symbol table."""
        image = self._map.image
        for is_dynamic in (False, True):
            try:
                if is_dynamic:
                    table = dynamic_table(image)
                else:
                    table = static_table(image.source, self._map.sections, image.encoding)
            except FormatError:
                continue  # the table is damaged
            named: dict[int, tuple[int, int]] = {}
            for name, info, _, section, value, size in table.rows():
                if info & 15 in (c.STT_FUNC, c.STT_GNU_IFUNC) and section != c.SHN_UNDEF:
                    named[value] = (size, name)
            if named:
                return sorted(
                    FileFunction(self._entry(value), size, table.text(name))
                    for value, (size, name) in named.items()
                )
        return []

    def _entry(self, vaddr: int) -> int:
        """Return the address of a function's code; in ELFv1 a symbol leads to a descriptor."""
        arch = self._map.machine
        if arch is None or not arch.has_descriptors or self.section(vaddr) != ".opd":
            return vaddr
        return self.word(vaddr) or vaddr

    def cell(self, vaddr: int) -> str:
        """Describe the words that the loader fills for PLT0."""
        listed = [
            section.vaddr
            for section in self._map.sections.all
            if section.name in (".got.plt", ".got")
        ]
        told = self._map.tag(c.DT_PLTGOT)
        for base in [*([] if told is None else [told]), *listed]:
            index, rest = divmod(vaddr - base, self.bits // 8)
            if not rest and self._first <= index < 3:
                return f"GOT[{index}]"
        return ""


def _loader(elf: ElfMap) -> str:
    """Return the C library whose loader binds the file, as far as the file tells."""
    try:
        interpreter = elf.image.interpreter or ""
    except FormatError:
        interpreter = ""
    name = interpreter.rpartition("/")[2]
    if name.startswith("ld-musl"):
        return MUSL
    if name in ("linker", "linker64"):
        return BIONIC
    if name.startswith(("ld-linux", "ld64.so", "ld-2.")):
        return GLIBC
    libraries = {*elf.needed, *(slot.library for slot in elf.slots if slot.library)}
    if any(library.startswith("libc.musl-") for library in libraries):
        return MUSL
    if any(library.startswith(("libc.so.6", "ld-linux", "ld64.so")) for library in libraries):
        return GLIBC
    if "libc.so" in libraries:
        return BIONIC if any(slot.version == "LIBC" for slot in elf.slots) else MUSL
    return ""
