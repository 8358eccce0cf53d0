# SPDX-License-Identifier: Apache-2.0
"""Names of an image that only DWARF has (rule "dwarf"), in its own file or its debug file.

It takes pyelftools, the extra `soscope[lines]`; without it a note says what was not looked at.
"""

from __future__ import annotations

import contextlib
import os
import time

from soscope.binfmt.dwarf import Dwarf, DwarfError, DwarfName
from soscope.binfmt.elf import debuglink
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.source import FileSource
from soscope.errors import FormatError
from soscope.process.staticnames import ImageNames, open_regular

_SECONDS = 3.0  # that one image's DWARF may take for one query
_NOT_THERE = "DWARF was not looked at: that needs soscope[lines] (pyelftools)"


class DwarfNames:
    """The DWARF of one image; values are link-time addresses of the image."""

    __slots__ = ("_dwarf", "_files", "_names", "_shift")

    def __init__(self, names: ImageNames) -> None:
        self._names = names
        self._shift = 0
        self._dwarf: Dwarf | None = None
        self._files = contextlib.ExitStack()
        try:
            self._open()
        except ImportError:
            self._note(_NOT_THERE)
        except (DwarfError, FormatError, OSError) as error:
            self._note(str(error))

    def find(self, name: str) -> list[DwarfName]:
        """Return what is called `name`."""
        if self._dwarf is None:
            return []
        until = time.monotonic() + _SECONDS
        try:
            return [self._shifted(one) for one in self._dwarf.find(name, until)]
        except DwarfError as error:
            self._note(str(error))
            return []

    def at(self, vaddr: int) -> DwarfName | None:
        """Return the function that holds link-time address `vaddr`, None where none does."""
        if self._dwarf is None:
            return None
        try:
            found = self._dwarf.at(vaddr - self._shift, time.monotonic() + _SECONDS)
        except DwarfError as error:
            self._note(str(error))
            return None
        return None if found is None else self._shifted(found)

    def _shifted(self, one: DwarfName) -> DwarfName:
        vaddr = one.vaddr + self._shift
        return DwarfName(one.name, vaddr, one.size, is_function=one.is_function)

    def _note(self, text: str) -> None:
        if text not in self._names.notes:
            self._names.notes.append(text)

    def _open(self) -> None:
        """Open whichever file has .debug_info."""
        own = self._names.elf
        if own is not None and isinstance(own.source, FileSource):
            descriptor = os.dup(own.source.descriptor)
            if self._take(descriptor, own.source.name):
                return
        path = self._names.debug_path if self._names.debug_elf is not None else None
        debug = None if path is None else open_regular(path)
        if debug is not None and path is not None and self._take(debug, path):
            self._shift = self._names.shift

    def _take(self, descriptor: int, path: str) -> bool:
        """Read the file if it has DWARF; say whether."""
        file = self._files.enter_context(os.fdopen(descriptor, "rb"))
        elf = ElfImage.from_descriptor(descriptor, path)
        sections = Sections.read(elf)
        if sections.named(".debug_info") is None and sections.named(".zdebug_info") is None:
            return False
        link = debuglink.debugaltlink(elf, sections)
        alternate = None
        if link is not None:
            other = self._alternate(*link, path)
            if other is None:
                self._note(f"{path}: what it shares with others is in {link[0]}, which is missing")
                return False
            alternate = self._files.enter_context(os.fdopen(other, "rb"))
        self._dwarf = Dwarf(file, alternate)
        return True

    def _alternate(self, name: str, build_id: bytes, path: str) -> int | None:
        """Open the file that .gnu_debugaltlink names, None where none has that build-id."""
        paths = [] if name.startswith("/") else [os.path.join(os.path.dirname(path), name)]
        for root in self._names.roots:
            if name.startswith("/"):
                paths.append(root + name)
            if len(build_id) > 1:
                paths.append(root + debuglink.build_id_path(build_id))
        for one in paths:
            descriptor = open_regular(one)
            if descriptor is None:
                continue
            try:
                elf = ElfImage.from_descriptor(descriptor, one)
                if debuglink.file_build_id(elf, Sections.read(elf)) == build_id:
                    return descriptor
                self._note(f"{one}: not used: it is of another build-id")
            except (FormatError, OSError) as error:
                self._note(str(error))
            os.close(descriptor)
        return None

    def __del__(self) -> None:
        self._files.close()
