# SPDX-License-Identifier: Apache-2.0
"""Names that only an image's DWARF has (rule "dwarf"), in its own file or its debug file.

A debug file with a .symtab was split from a complete image. Its .symtab has all names, and
reading its DWARF for each name that is nowhere would take seconds.
"""

from __future__ import annotations

import os
import time

from soscope.binfmt.dwarf.names import Dwarf, DwarfError, DwarfName
from soscope.binfmt.elf import sections as debuglink
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.isa import part
from soscope.binfmt.source import FileSource, open_regular
from soscope.errors import FormatError
from soscope.live.names.staticnames import ImageNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.model.call import Signature

_SECONDS = 2.0  # seconds for one image's DWARF in one query
_MAX_STRINGS = 1 << 28
_MAX_FILES = 1 << 29  # bytes of files that are read for types


class DwarfNames:
    """The DWARF of one image; values are link-time addresses of the image.

    The files are read only for names that are among their strings. If `has_types`
    is true, the caller wants types, not names, so a debug file with a .symtab is read, too.
    """

    __slots__ = ("_descriptors", "_dwarf", "_has_types", "_names", "_shift", "_strings")

    def __init__(self, names: ImageNames, *, has_types: bool = False) -> None:
        self._names = names
        self._has_types = has_types
        self._shift = 0
        self._dwarf: Dwarf | None = None
        self._descriptors: list[int] = []
        self._strings: list[bytes | None] = []
        try:
            self._open()
        except (FormatError, OSError) as error:
            self._note(str(error))

    @property
    def is_there(self) -> bool:
        """Return whether there is DWARF with names, not counting names of up to 3 characters."""
        return bool(self._strings)

    def find(self, name: str) -> list[DwarfName]:
        """Return the definitions called `name`."""
        raw = os.fsencode(name)
        # only a name that is shorter than an offset may be outside of the strings
        if len(raw) > 3 and all(
            strings is not None and raw + b"\0" not in strings for strings in self._strings
        ):
            return []
        dwarf = self._dwarf
        if dwarf is None:
            return []
        try:
            return [
                self._shifted(described)
                for described in dwarf.find(name, time.monotonic() + _SECONDS)
            ]
        except DwarfError as error:
            self._note(str(error))
            return []

    def at(self, vaddr: int) -> DwarfName | None:
        """Return the function that contains link-time address `vaddr`, None if there is none."""
        dwarf = self._dwarf
        if dwarf is None:
            return None
        try:
            function = dwarf.at(vaddr - self._shift, time.monotonic() + _SECONDS)
        except DwarfError as error:
            self._note(str(error))
            return None
        return None if function is None else self._shifted(function)

    def signature(self, vaddr: int | None, name: str, seconds: float) -> Signature | None:
        """Return the types of the function `name` that begins at link-time address `vaddr`.

        Return None if there is no such function. Without `vaddr`, only the name counts. Raises
        DwarfError with the reason if the types are not known, or not found within `seconds`.
        """
        own = self._names.elf
        passing = None if own is None or own.header is None else part(own.header.arch, "passing")
        if passing is None:
            raise DwarfError("how this machine passes arguments is not known")
        if sum(os.fstat(each).st_size for each in self._descriptors) > _MAX_FILES:
            raise DwarfError(f"DWARF: over {_MAX_FILES >> 20} MiB of it")
        dwarf = self._dwarf
        if dwarf is None:
            raise DwarfError(self._names.notes[-1] if self._names.notes else "no DWARF")
        if vaddr is not None:
            vaddr -= self._shift
        return dwarf.signature(vaddr, name, time.monotonic() + seconds, passing)

    def _shifted(self, described: DwarfName) -> DwarfName:
        vaddr = described.vaddr + self._shift
        return DwarfName(described.name, vaddr, described.size, is_function=described.is_function)

    def _note(self, text: str) -> None:
        if text not in self._names.notes:
            self._names.notes.append(text)

    def _open(self) -> None:
        """Open the image's file or its debug file, whichever has .debug_info."""
        own = self._names.elf
        if own is not None and isinstance(own.source, FileSource):
            descriptor = os.dup(own.source.descriptor)
            if self._take(descriptor, own.source.name):
                return
        if self._names.debug_elf is None:
            return
        if self._names.debug is not None and not self._has_types:
            return
        path = self._names.debug_path
        debug = None if path is None else open_regular(path)
        if debug is not None and path is not None and self._take(debug, path):
            self._shift = self._names.shift

    def _take(self, descriptor: int, path: str) -> bool:
        """Keep the file, and files it shares data with, if it has DWARF; return whether it has."""
        owned = [descriptor]
        try:
            images = self._images_of(owned, path)
            if images:
                self._strings = [_strings(each) for each in images]
                self._dwarf = Dwarf(images[0], images[1] if images[1:] else None)
                self._descriptors, owned = owned, []
        finally:
            for unused in owned:
                os.close(unused)
        return bool(images)

    def _images_of(self, owned: list[int], path: str) -> list[ElfImage]:
        """Return the image of an open file if it has DWARF, else [].

        If another file has a part of the DWARF, it is opened, added to `owned`, and returned, too.
        """
        images = [ElfImage.from_descriptor(owned[0], path)]
        sections = Sections.read(images[0])
        if not sections.has_debug(".debug_info"):
            return []
        link = debuglink.debugaltlink(images[0], sections)
        if link is not None:
            other = self._alternate(*link, path)
            if other is None:
                self._note(f"{path}: what it shares is in {link[0]}, which is missing")
                return []
            owned.append(other)
            images.append(ElfImage.from_descriptor(other, link[0]))
        return images

    def _alternate(self, name: str, build_id: bytes, path: str) -> int | None:
        """Open the file that .gnu_debugaltlink names, None if no file has that build-id."""
        paths = [] if name.startswith("/") else [os.path.join(os.path.dirname(path), name)]
        for root in self._names.roots:
            if name.startswith("/"):
                paths.append(root + name)
            if len(build_id) > 1:
                paths.append(root + debuglink.build_id_path(build_id))
        for candidate in paths:
            descriptor = open_regular(candidate)
            if descriptor is None:
                continue
            try:
                elf = ElfImage.from_descriptor(descriptor, candidate)
                if debuglink.file_build_id(elf, Sections.read(elf)) == build_id:
                    return descriptor
                self._note(f"{candidate}: not used: it is of another build-id")
            except (FormatError, OSError) as error:
                self._note(str(error))
            os.close(descriptor)
        return None

    def __del__(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


def _strings(elf: ElfImage) -> bytes | None:
    """Return .debug_str, None if it cannot be read by itself."""
    contents = Sections.read(elf).unpacked_all([".debug_str"], elf.encoding, _MAX_STRINGS)
    return None if contents is None else contents[".debug_str"] or None
