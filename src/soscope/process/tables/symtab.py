# SPDX-License-Identifier: Apache-2.0
"""The whole dynamic symbol table of a loaded image, read at once: for work on every slot."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.versions import Versions
from soscope.process.images.loadedimage import LoadedImage

Row = tuple[int, int, int, int, int, int]  # name, info, other, section, value, size

_MAX_STRINGS = 1 << 28


class SymbolRows:
    """The rows of DT_SYMTAB by index, the null symbol included.

    `numbers` are DT_VERSYM's, None where the image has no versions. Raises FormatError where
    the tables are damaged.
    """

    __slots__ = ("_versions", "image", "numbers", "rows", "strings")

    def __init__(self, image: LoadedImage) -> None:
        self.image = image
        elf = image.elf
        self._versions = Versions(elf)
        self.rows: list[Row] = []
        self.strings = b""
        self.numbers: list[int] | None = None
        at, strings = elf.locate_pointer(c.DT_SYMTAB), elf.locate_pointer(c.DT_STRTAB)
        if at is None or strings is None:
            return
        layout = elf.encoding.symbol
        count = len(elf.symbols)
        table = elf.source.read(at, count * layout.size)
        table = table[: len(table) // layout.size * layout.size]
        found = layout.iter_unpack(table)
        if elf.encoding.bits == 64:
            self.rows = [(name, *rest) for name, *rest in found]
        else:
            self.rows = [(f[0], f[3], f[4], f[5], f[1], f[2]) for f in found]
        size = min(elf.dynamic.get(c.DT_STRSZ) or 0, _MAX_STRINGS)
        self.strings = elf.source.read(strings, size)
        versym = elf.locate_pointer(c.DT_VERSYM)
        if versym is not None:
            data = elf.source.read(versym, 2 * len(self.rows))
            half = elf.encoding.half
            self.numbers = [one for (one,) in half.iter_unpack(data[: len(data) // 2 * 2])]

    def name(self, index: int) -> bytes:
        """Return the name of the symbol at `index`, b"" where there is none."""
        if not 0 <= index < len(self.rows):
            return b""
        return self._text(self.rows[index][0])

    def _text(self, at: int) -> bytes:
        end = self.strings.find(b"\0", at)
        return self.strings[at:end] if end >= 0 else b""

    def number(self, index: int) -> int:
        """Return DT_VERSYM's word for a symbol; 1, global without a version, without one."""
        if self.numbers is None or index >= len(self.numbers):
            return 1
        return self.numbers[index]

    def version(self, index: int) -> str | None:
        """Return the version of a symbol, None where it has none. Raises FormatError."""
        number = self.number(index) & ~c.VERSYM_HIDDEN
        is_defined = self.rows[index][3] != c.SHN_UNDEF
        return self._versions.name(number, is_defined=is_defined)

    def definitions(self, wanted: set[bytes]) -> list[tuple[bytes, int]]:
        """Return (name, index) of what a loader may bind one of the `wanted` names to."""
        found = []
        find, strings = self.strings.find, self.strings
        for index, (at, info, other, section, value, _) in enumerate(self.rows):
            if not value and section != c.SHN_ABS:
                continue
            if not info >> 4 or other & 3 in (c.STV_HIDDEN, c.STV_INTERNAL):
                continue
            if info & 15 == c.STT_TLS:
                continue
            name = strings[at : find(b"\0", at)]
            if name in wanted:
                found.append((name, index))
        return found

    def by_address(self) -> dict[int, bytes]:
        """Return link-time address -> name of what is defined here.

        Of several a global one counts before others, then one without an underscore in front,
        then the first: as for whoever asks what an address is.
        """
        found: dict[int, tuple[bool, bool, bytes]] = {}
        for at, info, _, section, value, _ in self.rows:
            if value and section != c.SHN_UNDEF and info & 15 != c.STT_TLS:
                name = self._text(at)
                rank = info >> 4 != c.STB_GLOBAL, name[:1] == b"_"
                if value not in found or rank < found[value][:2]:
                    found[value] = *rank, name
        return {value: name for value, (_, _, name) in found.items()}
