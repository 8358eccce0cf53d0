# SPDX-License-Identifier: Apache-2.0
"""Divides the code of a file into functions, by its unwind tables and symbols."""

from __future__ import annotations

from bisect import bisect_right

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.symbols.array import SymbolArray
from soscope.binfmt.elf.unwind import FrameTable, code_ranges
from soscope.errors import FormatError

# Suffixes of names: code of a function in another place, and a part of it that it calls.
_COLD, _SPLIT = ".cold", ".part"
_AT_CALL = 8  # bytes from the stack pointer to the CFA at the start of an x86-64 function


class Functions:
    """The pieces of a file's code, by rising address. With gcc, a function may be several pieces.

    `starts` are link-time addresses, and `names` are the symbols of each piece, none in a
    stripped file.
    """

    __slots__ = ("_bases", "_ends", "_frames", "_mapped", "names", "starts")

    def __init__(self, mapped: ElfMap, tables: list[SymbolArray]) -> None:
        """Read the unwind tables and `tables`. Damage is noted in `mapped.partial`."""
        self._mapped = mapped
        self._frames: FrameTable | None = None
        ranges: dict[int, int] = {}
        named: dict[int, set[str]] = {}
        sized: dict[int, int] = {}
        self._bases: dict[str, set[int]] = {}
        try:
            for start, size in code_ranges(mapped.image):
                ranges[start] = max(ranges.get(start, 0), start + size)
        except FormatError as error:
            mapped.partial.append(str(error))
        for table in tables:
            for name, info, _, section, value, size in table.rows():
                if info & 15 not in (c.STT_FUNC, c.STT_GNU_IFUNC) or section == c.SHN_UNDEF:
                    continue
                text = table.text(name).partition("@")[0]
                named.setdefault(value, set()).add(text)
                self._bases.setdefault(base_name(text), set()).add(value)
                sized[value] = max(sized.get(value, 0), value + size)
        self.starts = sorted(ranges)
        self._ends = [ranges[start] for start in self.starts]
        ranges |= {start: end for start, end in sized.items() if end > start and self.at(start) < 0}
        self.starts = sorted(ranges)
        self._ends = [ranges[start] for start in self.starts]
        self.names = [named.get(start, set()) for start in self.starts]

    def at(self, vaddr: int) -> int:
        """Return the index of the piece that holds an address, -1 if none does."""
        index = bisect_right(self.starts, vaddr) - 1
        return index if index >= 0 and vaddr < self._ends[index] else -1

    def code_before(self, vaddr: int, size: int) -> bytes:
        """Return up to `size` bytes before an address, from the same piece."""
        index = self.at(vaddr - 1)
        start = max(vaddr - size, self.starts[index] if index >= 0 else 0)
        image = self._mapped.image
        try:
            return image.source.read(image.locate(start), vaddr - start)
        except FormatError:
            return b""  # the address is in no segment of the file

    def originals(self, index: int) -> set[int]:
        """Return the addresses of the functions that a piece may be a copy or a part of."""
        bases = {base_name(name) for name in self.names[index]} - {""}
        return {start for base in bases for start in self._bases.get(base, ())}

    def is_cold(self, index: int) -> bool:
        """Return whether a piece is seldom executed code of a function, and no function itself.

        The compiler marks it in the name. A piece without a name is one if its frame exists at
        its start.
        """
        if self.names[index]:
            return self._are_named(index, _COLD)
        try:
            if self._frames is None:
                self._frames = FrameTable(self._mapped.image)
            row = self._frames.row(self.starts[index])
        except FormatError:
            return False  # with damaged unwind tables it counts as a function
        return row is not None and row.offset != _AT_CALL

    def is_split(self, index: int) -> bool:
        """Return whether a piece is, by its name, a later part of another function."""
        return self._are_named(index, _SPLIT)

    def _are_named(self, index: int, word: str) -> bool:
        names = self.names[index]
        return bool(names) and all(word in name for name in names)


def base_name(name: str) -> str:
    """Return a function's name without the suffixes of compilers for copies and parts."""
    return name.partition(".")[0]
