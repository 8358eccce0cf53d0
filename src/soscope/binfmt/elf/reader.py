# SPDX-License-Identifier: Apache-2.0
"""The base of all tables of an ELF image: addresses, dynamic tags, strings.

In a file, the PT_LOAD that contains a link-time address gives its offset. In memory, the load
bias is added to it. Some loaders relocate the pointers of the dynamic section in place, others do
not: `locate_pointer` handles both.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.dynamic import Dynamic
from soscope.binfmt.elf.encoding import Encoding
from soscope.binfmt.elf.header import Header, Segment
from soscope.binfmt.source import ByteSource, broken, take

_STRING_PIECE = 64
_MAX_STRING = 1 << 16  # bytes of a file or version name; PATH_MAX is 4096
_MAX_STRINGS = 1 << 30  # bytes of a string table


class ElfReader:
    """One ELF image in a byte source.

    If the image was opened by its dynamic section alone, `header` is None and `segments` is
    empty. `load_bias` is 0 for files.
    """

    __slots__ = (
        "_dynamic",
        "encoding",
        "header",
        "is_mapped",
        "load_bias",
        "segments",
        "source",
    )

    def __init__(
        self,
        source: ByteSource,
        *,
        encoding: Encoding,
        header: Header | None,
        segments: list[Segment],
        load_bias: int,
        is_mapped: bool,
        dynamic: Dynamic | None = None,
    ) -> None:
        self.source = source
        self.encoding = encoding
        self.header = header
        self.segments = segments
        self.load_bias = load_bias
        self.is_mapped = is_mapped
        self._dynamic = dynamic

    def locate(self, vaddr: int) -> int:
        """Return the position in the source of link-time address `vaddr`.

        Raises FormatError if no PT_LOAD of the file contains it.
        """
        if self.is_mapped:
            return vaddr + self.load_bias
        for segment in self.segments:
            if segment.type == c.PT_LOAD and 0 <= vaddr - segment.vaddr < segment.filesz:
                return vaddr - segment.vaddr + segment.offset
        raise broken(self.source, "vaddr", vaddr, "no PT_LOAD holds this address")

    def locate_pointer(self, tag: int) -> int | None:
        """Return the position of the table of dynamic tag `tag`, None if there is no such tag.

        glibc adds the load bias in the mapped dynamic section on most machines, but not for the
        vDSO; musl never does. A load bias is larger than any link-time address, so a larger value
        includes it.
        """
        value = self.dynamic.get(tag)
        if value is None:
            return None
        if self.is_mapped and value >= self.load_bias:
            return value
        return self.locate(value)

    def read(self, vaddr: int, size: int, field: str) -> bytes:
        """Read `size` bytes at link-time address `vaddr`.

        Raises FormatError, with `field` in its message, if the source has fewer bytes.
        """
        return take(self.source, self.locate(vaddr), size, field)

    @property
    def dynamic(self) -> Dynamic:
        """The dynamic section; empty for a static program."""
        if self._dynamic is None:
            self._dynamic = Dynamic([])
            for segment in self.segments:
                if segment.type == c.PT_DYNAMIC:
                    self._dynamic = Dynamic.read(
                        self.source, self.encoding, self.locate(segment.vaddr), segment.memsz
                    )
        return self._dynamic

    def lose_dynamic(self) -> None:
        """Treat the image as one without a dynamic section, because the section is damaged."""
        self._dynamic = Dynamic([])

    def dynamic_strings(self) -> bytes:
        """Return all of DT_STRTAB; less if it is cut, nothing if there is none."""
        table = self.locate_pointer(c.DT_STRTAB)
        size = min(self.dynamic.get(c.DT_STRSZ) or 0, _MAX_STRINGS)
        return b"" if table is None else self.source.read(table, size)

    def string(self, offset: int, field: str) -> str:
        """Return the string at `offset` of DT_STRTAB.

        Raises FormatError, with `field` in its message, if the string does not end within the
        table or is longer than 65,536 bytes.
        """
        table = self.locate_pointer(c.DT_STRTAB)
        if table is None:
            raise broken(self.source, field, offset, "no DT_STRTAB")
        size = self.dynamic.get(c.DT_STRSZ)
        text, piece_size = b"", _STRING_PIECE
        while size is None or offset + len(text) < size:
            piece = self.source.read(table + offset + len(text), piece_size)
            end = piece.find(b"\0")
            if end >= 0:
                return os.fsdecode(text + piece[:end])
            if not piece:
                break
            text += piece
            if len(text) >= _MAX_STRING:
                raise broken(self.source, field, table + offset, f"over {_MAX_STRING} bytes long")
            piece_size = len(text)
        raise broken(self.source, field, table + offset, "outside of DT_STRTAB")
