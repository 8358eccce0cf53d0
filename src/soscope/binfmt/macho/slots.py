# SPDX-License-Identifier: Apache-2.0
"""The pointer cells of one image, and what fills each: records, or the indirect symbol table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from struct import Struct
from typing import NamedTuple

from soscope.binfmt.macho import constants as c
from soscope.binfmt.macho.bindcodes import binds
from soscope.binfmt.macho.fixups import FORMATS, Fixups, is_bind
from soscope.binfmt.macho.image import MachoImage, MachoSection
from soscope.binfmt.macho.records import BIND, LAZY_BIND, WEAK_BIND, Bind, Ranges
from soscope.binfmt.macho.relocations import external_relocations
from soscope.binfmt.macho.symbols import MachoSymbols, Nlist

_POINTER_TYPES = frozenset(
    (
        c.S_NON_LAZY_SYMBOL_POINTERS,
        c.S_LAZY_SYMBOL_POINTERS,
        c.S_LAZY_DYLIB_SYMBOL_POINTERS,
        c.S_THREAD_LOCAL_VARIABLE_POINTERS,
    )
)
_LAZY_TYPES = frozenset((c.S_LAZY_SYMBOL_POINTERS, c.S_LAZY_DYLIB_SYMBOL_POINTERS))
# Some linkers, and tools that move sections, do not set the type.
_POINTER_NAMES = frozenset(("__got", "__auth_got", "__la_symbol_ptr", "__nl_symbol_ptr"))

_JUMP_SIZE = 5  # bytes of an entry of __jump_table


class Cell(NamedTuple):
    """One cell: its contents in the file, and everything that the image says about it.

    `target` is the address in this image that it holds before binding, None if it holds none.
    `row` is its symbol in the indirect symbol table. `records` are its records, in the order in
    which the loader applies them. `lazy` is true if its section is lazy.
    """

    vaddr: int
    section: MachoSection
    target: int | None
    row: Nlist | None
    records: tuple[Bind, ...]
    lazy: bool


class Cells:
    """All pointer cells of one image, and all other pointers that the loader binds."""

    __slots__ = ("_fixups", "_image", "_symbols", "jump_tables", "sections")

    def __init__(self, image: MachoImage, symbols: MachoSymbols) -> None:
        self._image = image
        self._symbols = symbols
        self._fixups: Fixups | None = None
        self.sections = image.bounded(
            [section for section in image.sections if _holds_pointers(section)]
        )
        self.jump_tables = image.bounded(
            [
                section
                for section in image.sections
                if section.type == c.S_SYMBOL_STUBS
                and section.flags & c.S_ATTR_SELF_MODIFYING_CODE
                and section.entry_size == _JUMP_SIZE
            ]
        )

    @property
    def fixups(self) -> Fixups:
        """The chained fixups; empty if the image has none."""
        if self._fixups is None:
            self._fixups = Fixups(self._image)
        return self._fixups

    def binds(self, wanted: Ranges) -> Iterator[Bind]:
        """Yield the records of all generations at `wanted` addresses, in the loader's order."""
        image = self._image
        return chain(
            external_relocations(image, self._symbols, wanted),
            binds(image, BIND, wanted),
            binds(image, WEAK_BIND, wanted),
            binds(image, LAZY_BIND, wanted),
            self.fixups.binds(wanted),
        )

    def read(self) -> Iterator[Cell]:
        """Yield each cell; cells that are empty in the file and that nothing fills are left out."""
        image = self._image
        wanted = Ranges(
            [(section.vaddr, section.vaddr + section.size) for section in self.sections]
        )
        records: dict[int, list[Bind]] = {}
        for bind in chain(
            external_relocations(image, self._symbols, wanted),
            binds(image, BIND, wanted),
            binds(image, WEAK_BIND, wanted),
            binds(image, LAZY_BIND, wanted),
        ):
            records.setdefault(bind.vaddr, []).append(bind)
        targets: dict[int, int | None] = {}
        fixups = self.fixups
        for vaddr, word, starts in fixups.words(wanted):
            if not wanted.has(vaddr):
                continue
            if is_bind(word, FORMATS[starts.format]):
                records.setdefault(vaddr, []).append(fixups.bind(vaddr, word, starts))
                targets[vaddr] = None
            else:
                targets[vaddr] = fixups.target(word, starts)
        for section in self.sections:
            yield from self._section(section, records, targets)
        for section in self.jump_tables:
            yield from self._jump_table(section)

    def _section(
        self,
        section: MachoSection,
        records: dict[int, list[Bind]],
        targets: dict[int, int | None],
    ) -> Iterator[Cell]:
        data = self._image.contents(section)
        word: Struct = self._image.encoding.word
        step = word.size
        lazy = section.type in _LAZY_TYPES
        has_table = section.type in _POINTER_TYPES
        mask = (1 << self._image.encoding.bits) - 1
        for index, (value,) in enumerate(word.iter_unpack(data[: len(data) // step * step])):
            vaddr = section.vaddr + index * step & mask
            row = self._row(section.first + index) if has_table else None
            binds = records.get(vaddr, ())
            target = targets.get(vaddr, value or None)
            if not binds and row is None and target is None:
                continue
            yield Cell(vaddr, section, target, row, tuple(binds), lazy)

    def _jump_table(self, section: MachoSection) -> Iterator[Cell]:
        size = min(section.size, max(0, self._image.size - section.offset))
        for index in range(size // _JUMP_SIZE):
            row = self._row(section.first + index)
            if row is not None:
                yield Cell(section.vaddr + index * _JUMP_SIZE, section, None, row, (), lazy=True)

    def _row(self, index: int) -> Nlist | None:
        number = self._symbols.indirect(index)
        if number is None or number & (c.INDIRECT_SYMBOL_LOCAL | c.INDIRECT_SYMBOL_ABS):
            return None
        return self._symbols.row(number)

    def pointer(self, vaddr: int) -> int | None:
        """Return the address in the pointer at `vaddr`, None if the pointer is bound."""
        data = self._image.read(vaddr, self._image.encoding.size)
        if len(data) < self._image.encoding.size:
            return None
        (word,) = self._image.encoding.word.unpack(data)
        starts = self.fixups.around(vaddr)
        if starts is None:
            return int(word)
        if is_bind(word, FORMATS[starts.format]):
            return None
        return self.fixups.target(word, starts)


def _holds_pointers(section: MachoSection) -> bool:
    return section.type in _POINTER_TYPES or (
        section.type == 0 and section.short_name in _POINTER_NAMES
    )
