# SPDX-License-Identifier: Apache-2.0
"""The symbol table (nlist), its strings, and the indirect symbol table of a Mach-O image.

Strings are read on request, one block at a time, because the strings of an image with debugging
symbols may be most of the file.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.image import DECODING, MachoImage
from soscope.errors import FormatError

_STRETCH = 1 << 16
_MANY = 1 << 15  # symbols from which on an array pays off


class Nlist(NamedTuple):
    """One nlist: offset of its name, type, section (from 1 on), description, value."""

    name: int
    type: int
    section: int
    description: int
    value: int

    @property
    def is_defined(self) -> bool:
        """Whether this image defines it; common symbols and re-exports do not count."""
        return self.type & c.N_TYPE not in (c.N_UNDF, c.N_PBUD, c.N_INDR)

    @property
    def is_external(self) -> bool:
        """Whether other images may see it."""
        return bool(self.type & c.N_EXT) and not self.type & c.N_STAB


class MachoSymbols:
    """LC_SYMTAB and LC_DYSYMTAB of one image; a broken table is empty and reported in `partial`."""

    __slots__ = ("_count", "_data", "_image", "_indirect", "_names", "_strings", "_struct")

    def __init__(self, image: MachoImage) -> None:
        self._image = image
        self._strings: dict[int, bytes] = {}
        self._names: dict[int, str] = {}
        self._struct: Struct = image.encoding.symbol
        self._indirect: list[int] | None = None
        self._data: bytes | None = None
        offset, count, strings, size = image.symtab
        room = max(0, image.size - offset) // self._struct.size
        if count > room:
            image.miss(f"symbol table: {count} symbols, the file has room for {room}")
        self._count = min(count, room)
        there = max(0, image.size - strings)
        if size > there:
            image.miss(f"string table: {size} bytes, the file has {there}")

    def __len__(self) -> int:
        return self._count

    def _rows(self) -> bytes:
        if self._data is None:
            start = self._image.start + self._image.symtab[0]
            self._data = self._image.source.read(start, self._count * self._struct.size)
            if len(self._data) < self._count * self._struct.size:
                self._image.miss("symbol table: cut off")
                self._count = len(self._data) // self._struct.size
        return self._data

    def row(self, index: int) -> Nlist | None:
        """Return a symbol by its index, None if the index is too large."""
        data = self._rows()
        if not 0 <= index < self._count:
            return None
        return Nlist._make(self._struct.unpack_from(data, index * self._struct.size))

    def rows(self, start: int, count: int) -> list[Nlist]:
        """Return `count` symbols from index `start` on, fewer at the end of the table."""
        data = self._rows()
        start = min(start, self._count)
        end = min(start + max(0, count), self._count)
        size = self._struct.size
        return [
            Nlist._make(row) for row in self._struct.iter_unpack(data[start * size : end * size])
        ]

    def name(self, row: Nlist) -> str:
        """Return the name of a symbol, "" if the string table does not have it."""
        known = self._names.get(row.name)
        if known is None:
            known = self._names[row.name] = self._string(row.name)
        return known

    def _string(self, at: int) -> str:
        _, _, offset, size = self._image.symtab
        size = min(size, max(0, self._image.size - offset))
        if at >= size and at:
            self._image.miss(f"string table: names behind its end, at {at:#x}")
        parts: list[bytes] = []
        while 0 < at < size:
            number, into = divmod(at, _STRETCH)
            stretch = self._strings.get(number)
            if stretch is None:
                start = number * _STRETCH
                stretch = self._image.source.read(
                    self._image.start + offset + start, min(_STRETCH, size - start)
                )
                self._strings[number] = stretch
            end = stretch.find(b"\0", into)
            parts.append(stretch[into : end if end >= 0 else len(stretch)])
            if end >= 0 or len(stretch) < _STRETCH:
                break
            at = (number + 1) * _STRETCH
            if not self._image.afford(_STRETCH):
                return ""
        name = b"".join(parts)
        return name.decode(*DECODING) if self._image.afford(len(name)) else ""

    # ---- the indirect symbol table ----

    def indirect(self, index: int) -> int | None:
        """Return entry `index` of the indirect symbol table, None if the index is too large.

        An entry is the index of a symbol, or INDIRECT_SYMBOL_LOCAL and INDIRECT_SYMBOL_ABS.
        """
        if self._indirect is None:
            self._indirect = self._read_indirect()
        return self._indirect[index] if 0 <= index < len(self._indirect) else None

    def _read_indirect(self) -> list[int]:
        image = self._image
        if not image.dysymtab:
            return []
        offset, count = image.dysymtab[12:14]
        try:
            data = image.table(offset, count * 4, "indirect symbol table")
        except FormatError as error:
            image.missed(error)
            data = image.source.read(
                image.start + offset, max(0, min(count * 4, image.size - offset))
            )
            data = data[: len(data) // 4 * 4]
        return [number for (number,) in image.encoding.u32.iter_unpack(data)]

    # ---- definitions ----

    def external_definitions(self) -> list[Nlist]:
        """Return the symbols that this image exports, by LC_DYSYMTAB or the whole table."""
        dysymtab = self._image.dysymtab
        first, count = dysymtab[2:4] if dysymtab else (0, self._count)
        rows = self.rows(first, count)
        return [row for row in rows if row.is_external and row.is_defined]

    def undefined(self) -> list[Nlist]:
        """Return the symbols that this image imports."""
        dysymtab = self._image.dysymtab
        first, count = dysymtab[4:6] if dysymtab else (0, self._count)
        rows = self.rows(first, count)
        return [row for row in rows if row.is_external and not row.is_defined]

    def at(self, wanted: set[int]) -> dict[int, Nlist]:
        """Return address -> symbol for each address in `wanted` that has one.

        Debugging symbols are left out, external symbols are preferred.
        """
        rows: dict[int, Nlist] = {}
        if not wanted:
            return rows
        for row in self._having(wanted):
            if row.type & c.N_STAB or not row.is_defined or row.value not in wanted:
                continue
            known = rows.get(row.value)
            if known is None or (row.is_external and not known.is_external):
                rows[row.value] = row
        return rows

    def _having(self, wanted: set[int]) -> list[Nlist]:
        data = self._rows()
        coding = self._image.encoding
        if self._count < _MANY:
            return [Nlist._make(row) for row in self._struct.iter_unpack(self._whole(data))]
        import numpy as np

        step = self._struct.size
        table = np.frombuffer(self._whole(data), np.uint8).reshape(-1, step)
        values = table[:, 8:].copy().view(f"{coding.order}u{coding.size}").reshape(-1)
        fitting = [value for value in wanted if 0 <= value < 1 << coding.bits]
        chosen = np.flatnonzero(np.isin(values, np.array(sorted(fitting), dtype=np.uint64)))
        return [Nlist._make(self._struct.unpack_from(data, int(place) * step)) for place in chosen]

    def _whole(self, data: bytes) -> bytes:
        return data[: self._count * self._struct.size]
