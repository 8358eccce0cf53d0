# SPDX-License-Identifier: Apache-2.0
"""Names of an image that are not dynamic symbols.

They are in the .symtab of its own file (rule "static"), compressed in .gnu_debugdata
("minidebug") or in a separate debug file ("debug-file"). That file is searched for by build-id,
then by .gnu_debuglink, first in the target's own root. A debug file of another build has other
addresses, so it is refused, with the reason in `ImageNames.notes`.

<https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html>
"""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf import sections as debuglink
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import AddressRanges, Sections, read_aranges
from soscope.binfmt.elf.symboltable import ElfSymbol, SymbolArray, static_table
from soscope.binfmt.source import ByteSource, FileSource, open_regular
from soscope.errors import FormatError
from soscope.model.record import once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STATIC = "static"
MINIDEBUG = "minidebug"
DEBUG_FILE = "debug-file"

Part = tuple[str, SymbolArray]


class ImageNames:
    """The static symbols of one image; each table is read on first use.

    `source` is the image's file, as a source or a function that opens it, None if there is none; it
    must stay readable. `build_id` is the build-id of the image in memory. `path` is the path of its
    file in the target's view. `roots` are the folders before that path, the target's first; "" is
    soscope's own. `debug_path` is the debug file in use. `notes` has what was refused, and why.
    """

    def __init__(
        self,
        source: ByteSource | ElfImage | None,
        *,
        build_id: bytes,
        path: str,
        roots: list[str],
    ) -> None:
        self._build_id = build_id
        self._path = path
        self._roots = roots
        self._parts: list[Part] = []
        self._steps: Iterator[Part] = self._read()
        self._debug: SymbolArray | None = None
        self.notes: list[str] = []
        self.debug_path: str | None = None
        self.elf: ElfImage | None = None
        if isinstance(source, ElfImage):
            self.elf = source
        elif source is not None:
            try:
                self.elf = ElfImage.from_source(source)
            except (FormatError, OSError) as error:
                self.notes.append(str(error))

    def parts(self) -> Iterator[Part]:
        """Yield (rule, symbols) of every table; each table is read only once."""
        at = 0
        while True:
            if at == len(self._parts):
                following = next(self._steps, None)
                if following is None:
                    return
                self._parts.append(following)
            yield self._parts[at]
            at += 1

    def find(self, name: str, version: str | None = None) -> list[tuple[str, ElfSymbol]]:
        """Return (rule, symbol) of the definitions of `name` in the first table that has any."""
        for rule, symbols in self.parts():
            definitions = symbols.find(name, version)
            if definitions:
                return [(rule, symbol) for symbol in definitions]
        return []

    # ---- the tables ----

    @once
    def sections(self) -> Sections | None:
        """The sections of its own file, None if they cannot be read."""
        try:
            return None if self.elf is None else Sections.read(self.elf)
        except OSError as error:
            self.notes.append(str(error))
            return None

    @once
    def own(self) -> SymbolArray | None:
        """The .symtab of its own file, None if there is none."""
        sections = self.sections
        if self.elf is None or sections is None:
            return None
        try:
            symbols = static_table(self.elf.source, sections, self.elf.encoding)
        except (FormatError, OSError) as error:
            self.notes.append(str(error))
            return None
        return symbols if len(symbols) > 1 else None

    def _read(self) -> Iterator[Part]:
        own = self.own
        if own is not None:
            yield STATIC, own
            return
        sections = self.sections
        if self.debug is not None:
            yield DEBUG_FILE, self.debug
        if self.elf is not None and sections is not None:
            mini = self._mini(self.elf, sections)
            if mini is not None:
                yield MINIDEBUG, mini

    def _mini(self, elf: ElfImage, sections: Sections) -> SymbolArray | None:
        try:
            data = debuglink.minidebug(elf, sections)
            if data is None:
                return None
            source = debuglink.UnpackedSource(data, elf.source.name)
            return self._symbols(ElfImage.from_source(source))
        except (FormatError, OSError) as error:
            self.notes.append(str(error))
        except ImportError:
            self.notes.append(f"{self._path}: .gnu_debugdata: this Python has no lzma")
        return None

    def _symbols(self, debug: ElfImage) -> SymbolArray | None:
        """Read the .symtab of a file that describes the image, at any link-time address."""
        symbols = static_table(debug.source, Sections.read(debug), debug.encoding)
        symbols.shift = 0 if self.elf is None else _shift(self.elf, debug)
        return symbols if len(symbols) > 1 else None

    # ---- separate debug files ----

    @once
    def roots(self) -> list[str]:
        """The root folders, each folder once."""
        return _different(self._roots)

    @once
    def debug_elf(self) -> ElfImage | None:
        """The image's debug file, None if there is none; see `debug_path`.

        The file is closed again, so only its headers can be used.
        """
        places = debuglink.debug_files(
            self.elf, self.sections, self._build_id, self._path, self.roots, self.notes.append
        )
        for path, crc in places:
            descriptor = open_regular(path)
            if descriptor is None:
                continue
            try:
                debug = self._accepted(FileSource(descriptor, path), crc)
                if debug is not None:
                    self._debug = self._symbols(debug)
                    self.debug_path = path
                    return debug
            except (FormatError, OSError) as error:
                self.notes.append(str(error))
            finally:
                os.close(descriptor)
        return None

    @property
    def shift(self) -> int:
        """How much higher the image is linked than its debug file."""
        debug = self.debug_elf
        return 0 if debug is None or self.elf is None else _shift(self.elf, debug)

    @property
    def debug(self) -> SymbolArray | None:
        """The .symtab of its debug file, None if there is none."""
        return None if self.debug_elf is None else self._debug

    def may_describe(self, vaddr: int) -> bool:
        """Return whether DWARF may describe code at `vaddr` that is in no symbol table.

        Such DWARF is in the image's own file, or in a debug file without a .symtab. Other debug
        files were split off with all symbols.
        """
        sections = self.sections
        if sections is None or sections.named(".debug_info") is None:
            return self.own is None and self.debug_elf is not None and self.debug is None
        ranges = self._aranges
        return ranges is None or ranges.may_have(vaddr)

    @once
    def _aranges(self) -> AddressRanges | None:
        """The addresses that its own DWARF describes, None if it does not tell."""
        sections = self.sections
        try:
            if sections is not None and self.elf is not None:
                return read_aranges(sections, self.elf.encoding)
        except (FormatError, OSError):
            pass  # any address may be described
        return None

    def _accepted(self, source: FileSource, crc: int | None) -> ElfImage | None:
        """Open a debug file; return None, and add a note, if it belongs to another image."""
        debug = ElfImage.from_source(source)
        why = debuglink.another_build(debug, self._build_id, crc, self._path)
        if why is not None:
            self.notes.append(f"{source.name}: not used: {why}")
            return None
        if self.elf is not None and debug.encoding is not self.elf.encoding:
            return None
        return debug


def _different(roots: list[str]) -> list[str]:
    """Leave out roots that are the same folder, or that are not accessible."""
    seen, kept = set(), []
    for root in roots:
        try:
            status = os.stat(root or "/")
        except OSError:
            continue  # not accessible
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            kept.append(root)
    return kept


def _shift(image: ElfImage, debug: ElfImage) -> int:
    """Return how much higher `image` is linked than its debug file: prelink moves only one."""
    ours, theirs = (
        [segment.vaddr for segment in elf.segments if segment.type == c.PT_LOAD]
        for elf in (image, debug)
    )
    if len(ours) != len(theirs):
        return 0
    shifts = {our - their for our, their in zip(ours, theirs, strict=True)}
    return shifts.pop() if len(shifts) == 1 else 0
