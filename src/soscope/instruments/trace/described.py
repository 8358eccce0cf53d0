# SPDX-License-Identifier: Apache-2.0
"""Prototypes from debug information: of the functions themselves, or from their callers.

gcc describes each function that a unit calls, with the types of its arguments, wherever the
function is defined. So a program that was built with -g tells what it passes to libraries that
were not.

Debug information is read for functions that can be hooked and have no prototype, in images that
have some. Most programs have no such functions or no such images. It is read when the loader has
mapped the images and the agent has not hooked them yet, so captures are final from the first call
on.
"""

from __future__ import annotations

import os
import time

from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError
from soscope.instruments.trace.foreign import ForeignFunctions
from soscope.instruments.trace.imagefiles import ImageFiles, KnownLines, mapped, mapped_at
from soscope.select.filter import Selection, chooses, compile_selection
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.dwarf.entries import Entries
    from soscope.binfmt.elf.symbols.array import ElfSymbol
    from soscope.instruments.trace.settings import TraceSettings
    from soscope.prototypes import Prototypes

_SECONDS = 1.0  # seconds of processor time for all images of a program, whose start waits
_LATER = 0.5  # seconds for all images loaded later; the loading thread waits
LTRACE_FILES = ("~/.ltrace.conf", "/etc/ltrace.conf")
_MOST_NAMES = 2000  # mangled C++ names of one program: a third of a second
_MOST_KEPT = 1 << 25  # bytes of .debug_info that are kept between two looks at an image
_MOST_TRIED = 4  # DWARF entries that are tried for one function


class DescribedFunctions:
    """Adds to `prototypes` the functions of a program that debug information describes.

    `notes` tell what could not be read.
    """

    def __init__(self, prototypes: Prototypes, settings: TraceSettings) -> None:
        self._prototypes = prototypes
        callers = settings.from_ or (["all"] if settings.to else [])
        self._selection: Selection = compile_selection(
            settings.select, callers, sets=prototypes.groups
        )
        self._foreign = ForeignFunctions(prototypes, [])
        self._may_have: dict[str, bool] = {}  # whether it can have DWARF, by path
        self._files = ImageFiles([])
        self._lines: KnownLines = {}
        self._left = _LATER
        self.notes: list[str] = []
        self._kept: dict[str, tuple[Entries, str] | None] = {}  # DWARF, while images are open
        self._room = _MOST_KEPT

    def look(self, pid: int) -> None:
        """Read the images that a process has now."""
        doubtful = self._doubtful()
        if doubtful is not None and not doubtful:
            return
        until = time.thread_time() + _SECONDS
        try:
            images = ImageFiles(mapped(pid))
        except OSError:
            return  # that process is gone
        self._foreign = ForeignFunctions(self._prototypes, images.all)
        try:
            if doubtful is None or any(map(self._foreign.is_defined, doubtful)):
                self._look(images, self._callers(images), until)
        except (FormatError, OSError):
            return  # a damaged image, whose calls are guessed
        finally:
            self._forget()
            images.close()

    def look_later(self, pid: int, addr: int) -> set[str] | None:
        """Read an image that was loaded later, mapped at `addr`.

        Return the names of functions without prototype that it can be seen to call. Return None
        if there is no time for this image and further ones.
        """
        if self._left <= 0:
            return None
        start = time.thread_time()
        try:
            path, paths = mapped_at(pid, addr, self._lines)
            self._files.become(paths)
            self._foreign = ForeignFunctions(self._prototypes, self._files.all)
            callers = self._callers(self._files, path)
            self._look(self._files, callers, start + self._left)
        except (FormatError, OSError):
            return set()  # the image is gone or damaged, so its calls are guessed
        finally:
            self._forget()
            self._files.rest()
            self._left -= time.thread_time() - start
            if self._left <= 0:
                what = "what was loaded later: debug information and names of C++ were not read"
                self.notes.append(f"{what} to their end, as it took too long")
        return set().union(*callers.values())

    def close(self) -> None:
        """Close the files, which were kept open for another look."""
        self._files.close()

    def explain(self, symbol: str, paths: list[str]) -> None:
        """Look for one function in images, or for calls of it there. Raises OSError."""
        until = time.thread_time() + _SECONDS
        images = ImageFiles(paths)
        self._foreign = ForeignFunctions(self._prototypes, images.all)
        try:
            for path, image in images.all:
                if self._has(image, symbol):
                    self._read(image, path, {symbol}, until)
            for path, image in images.all:
                if any(each.name == symbol for each in image.undefined_functions()):
                    self._read(image, path, {symbol}, until, of_caller=True)
            self._read_names({symbol}, images, until)
            self._read_ltrace({symbol})
        finally:
            self._forget()
            images.close()

    def _forget(self) -> None:
        self._kept = {}
        self._room = _MOST_KEPT

    def _doubtful(self) -> set[str] | None:
        """Return the filter's names that belong to a family, None if others may match."""
        words = [word.symbol for word in self._selection.words if word.kind == layout.RULE_INCLUDE]
        if not all(word.is_plain and self._prototypes.is_known(word.text) for word in words):
            return None
        return {word.text for word in words if self._prototypes.family(word.text)}

    def _unknown(self, image: ElfImage, path: str, *, is_main: bool) -> set[str]:
        """Return the names of unknown functions that an image can be seen to call."""
        name = image.soname or os.path.basename(path)
        return {
            symbol.name
            for symbol in image.called_functions()
            if (not self._prototypes.is_known(symbol.name) or self._may_be_foreign(symbol))
            and chooses(
                self._selection,
                symbol.name,
                caller=name,
                callee="",
                caller_path=path,
                caller_is_main=is_main,
            )
        }

    def _may_be_foreign(self, symbol: ElfSymbol) -> bool:
        name = symbol.name
        return not self._prototypes.is_foreign_known(name) and self._foreign.may_be(symbol)

    def _callers(self, images: ImageFiles, only: str | None = None) -> dict[str, set[str]]:
        """Return the unknown functions that images call, by path, or those of image `only`."""
        callers: dict[str, set[str]] = {}
        for number, (path, image) in enumerate(images.all):
            if only is None or path == only:
                unknown = self._unknown(image, path, is_main=not number)
                if unknown:
                    callers[path] = unknown
        return callers

    def _may_have_entries(self, image: ElfImage, path: str) -> bool:
        if path not in self._may_have:
            from soscope.instruments.trace.debugfile import may_have_entries

            self._may_have[path] = may_have_entries(image, path)
        return self._may_have[path]

    def _look(self, images: ImageFiles, callers: dict[str, set[str]], until: float) -> None:
        wanted = set().union(*callers.values())
        if not wanted:
            return
        described = [pair for pair in images.all if self._may_have_entries(pair[1], pair[0])]
        for path, image in described:
            defined = {
                name
                for name in wanted
                if images.may_define(path, image, name) and self._has(image, name)
            }
            if defined:
                self._read(image, path, defined, until)
        for path, image in described:
            if path in callers:
                self._read(image, path, callers[path], until, of_caller=True)
        self._read_names(wanted, images, until)
        self._read_ltrace(wanted)

    def _read_names(self, names: set[str], images: ImageFiles, until: float) -> None:
        """Add prototypes from mangled C++ names, for functions that are still unknown."""
        left = sorted(name for name in names if name.startswith("_Z") and not self._is_known(name))
        if not left:
            return
        from soscope.prototypes.cxx import Scopes, declare
        from soscope.prototypes.sources import MANGLED, SourceText

        scopes = Scopes(image.dynamic_strings() for _, image in images.all)
        declared = []
        for number, name in enumerate(left):
            if number == _MOST_NAMES or time.thread_time() > until:
                self.notes.append("names of C++ were not read to their end, as it took too long")
                break
            text = declare(name, scopes)
            if text is not None:
                declared.append(text)
        if declared:
            text = "\n".join([*declared, ""])
            self._prototypes.add(SourceText(MANGLED, "the name itself", text), [])

    def _read_ltrace(self, names: set[str]) -> None:
        """Add prototypes from ltrace's files, for functions that are still unknown."""
        if _has_ltrace_files():
            from soscope.prototypes.sources import add_ltrace

            self.notes += add_ltrace(self._prototypes, names)

    def _has(self, image: ElfImage, name: str) -> bool:
        if self._prototypes.is_known(name):  # the name is looked for in another library
            return self._foreign.is_other(image, name)
        return _defines(image, name)

    def _is_known(self, name: str) -> bool:
        if self._foreign.is_defined(name):
            return self._prototypes.is_foreign_known(name)
        return self._prototypes.is_known(name)

    def _read(
        self,
        image: ElfImage,
        path: str,
        names: set[str],
        until: float,
        *,
        of_caller: bool = False,
    ) -> None:
        """Add prototypes from the debug information of an image that defines or calls functions.

        With `of_caller`, the image calls them. The reader is imported here, as most images need
        none.
        """
        names = {name for name in names if not self._is_known(name)}
        if not names:
            return
        # Unpacking may take long, so the time is checked before and after it.
        debug = self._entries_of(image, path) if time.thread_time() <= until else None
        if debug is None and time.thread_time() <= until:
            return
        if debug is None or time.thread_time() > until:
            self.notes.append(f"debug information was not read: {path}, as it took too long")
            return
        entries, file = debug
        from soscope.prototypes.fromdwarf import CWriter
        from soscope.prototypes.sources import CALLER, DWARF, SourceText

        writer = CWriter(entries, self._prototypes.preamble)
        symbols = {name: name for name in names} | {_twin(name): name for name in names}
        functions = entries.functions({os.fsencode(name) for name in symbols})
        if entries.is_cut:
            self.notes.append(f"debug information was not read to its end: {file}")
        for name, described in functions.items():
            symbol = symbols[os.fsdecode(name)]
            if time.thread_time() > until:
                self.notes.append(f"debug information was not read to its end: {file}")
                break
            any(writer.add(symbol, entry) for entry in described[:_MOST_TRIED])
        if writer.text:
            kind = CALLER if of_caller else DWARF
            self._prototypes.add(SourceText(kind, file, writer.text), [])

    def _entries_of(self, image: ElfImage, path: str) -> tuple[Entries, str] | None:
        """Return the debug information of an image, which is kept for a second look.

        An image that defines functions also calls some. Most of the time goes into unpacking, and
        for most libraries the result is small.
        """
        if path not in self._kept:
            from soscope.instruments.trace.debugfile import entries_of

            debug = entries_of(image, path)
            size = len(debug[0].info) if debug else 0
            if self._room < size:
                return debug
            self._room -= size
            self._kept[path] = debug
        return self._kept[path]


def unanswered(count: int) -> str:
    """Return a note that the calls of some images that were loaded later were not looked for."""
    which = "1 library that was" if count == 1 else f"{count:,} libraries that were"
    return f"types of functions of {which} loaded later were not looked for: there was no time"


def _has_ltrace_files() -> bool:
    return any(os.path.exists(os.path.expanduser(path)) for path in LTRACE_FILES)


def _defines(image: ElfImage, name: str) -> bool:
    try:
        return image.symbols.lookup(name) is not None
    except FormatError:
        return False


def _twin(name: str) -> str:
    """Return the other name of a constructor or destructor, which often is the same function.

    Complete objects and bases have one name each (Itanium C++ ABI, 5.1.4.3).
    """
    for mine, others in (("C1E", "C2E"), ("D1E", "D2E")):
        if name.startswith("_Z") and name.count(mine) == 1:
            return name.replace(mine, others)
    return name
