# SPDX-License-Identifier: Apache-2.0
"""What every table of an ELF image needs: addresses, dynamic tags, strings.

In a file a link-time address is found through the PT_LOAD that holds it; in memory it is
just added to the load bias. The loader of some systems relocates the pointers of the dynamic
section in place and that of others does not: `locate_pointer` knows.
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.dynamic import Dynamic
from soscope.binfmt.elf.encoding import Encoding
from soscope.binfmt.elf.header import Header, Segment
from soscope.binfmt.source import ByteSource, broken, take

_STRING_PIECE = 64
_MAX_STRING = 1 << 16  # bytes: names of files and versions, PATH_MAX is 4096
_MAX_STRINGS = 1 << 30  # bytes of a table of them


class ElfReader:
    """One ELF image over a byte source.

    `header` and `segments` are None and empty for an image that was opened by its dynamic
    section alone. `load_bias` is 0 for files.
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
        """Return where in the source the link-time address `vaddr` lies.

        Raises FormatError where no PT_LOAD of the file holds it.
        """
        if self.is_mapped:
            return vaddr + self.load_bias
        for segment in self.segments:
            if segment.type == c.PT_LOAD and 0 <= vaddr - segment.vaddr < segment.filesz:
                return vaddr - segment.vaddr + segment.offset
        raise broken(self.source, "vaddr", vaddr, "no PT_LOAD holds this address")

    def locate_pointer(self, tag: int) -> int | None:
        """Return where the table of dynamic tag `tag` lies, None where there is no such tag.

        glibc adds the load bias in the mapped dynamic section on most machines, but not for
        the vDSO; musl never does. A load bias is larger than any link-time address.
        """
        value = self.dynamic.get(tag)
        if value is None:
            return None
        if self.is_mapped and value >= self.load_bias:
            return value
        return self.locate(value)

    def read(self, vaddr: int, size: int, field: str) -> bytes:
        """Read `size` bytes at link-time address `vaddr`.

        Raises FormatError naming `field` where they are not all there.
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
        """Take it for an image without a dynamic section: what is there is none."""
        self._dynamic = Dynamic([])

    def dynamic_strings(self) -> bytes:
        """Return all of DT_STRTAB, empty where there is none, its beginning where it is cut."""
        table = self.locate_pointer(c.DT_STRTAB)
        size = min(self.dynamic.get(c.DT_STRSZ) or 0, _MAX_STRINGS)
        return b"" if table is None else self.source.read(table, size)

    def string(self, offset: int, field: str) -> str:
        """Return the string at `offset` of DT_STRTAB.

        Raises FormatError naming `field` where it does not end in the table, or is longer than
        65,536 bytes.
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
