# SPDX-License-Identifier: Apache-2.0
"""Read prototypes from the debug information of a process's images."""

from __future__ import annotations

import os
import time

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections, another_build, debug_files
from soscope.binfmt.source import READING, FileSource
from soscope.errors import FormatError
from soscope.proc import maps
from soscope.prototypes.catalog import TREATMENT_FAMILIES
from soscope.select.filter import Selection, chooses, compile_selection
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.dwarf.entries import Entries
    from soscope.binfmt.elf.symboltable import ElfSymbol
    from soscope.instruments.trace.settings import TraceSettings
    from soscope.prototypes import Prototypes


# Finds the debug information of a file: in the file, or in its separate debug file.
#
# See the GDB manual, "Separate Debug Files".

_SECTIONS = (
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_line",
)
_MOST = 1 << 28  # bytes that are read of all debug sections, at most


def may_have_entries(image: ElfImage, path: str) -> bool:
    """Return whether `entries_of` can find anything for an open image; mostly it cannot."""
    sections = Sections.read(image)
    return sections.named(".debug_info") is not None or any(
        os.path.exists(candidate)
        for candidate, _ in debug_files(image, sections, image.build_id, os.path.abspath(path))
    )


def entries_of(image: ElfImage, path: str) -> tuple[Entries, str] | None:
    """Return the DWARF entries of an open image, and the path of the file that has them.

    Return None if there are none, if they cannot be read, or if they are too large to be read at
    a program's start.
    """
    sections = Sections.read(image)
    entries = _entries(image, sections)
    if entries is not None:
        return entries, path
    where = os.path.abspath(path)
    for candidate, crc in debug_files(image, sections, image.build_id, where):
        try:
            descriptor = os.open(candidate, READING)
        except OSError:
            continue  # most files have no separate debug file
        try:
            debug = ElfImage.from_source(FileSource(descriptor, candidate))
            if another_build(debug, image.build_id, crc, path) is None:
                entries = _entries(debug, Sections.read(debug))
        except (FormatError, OSError):
            continue  # a damaged debug file describes nothing
        finally:
            os.close(descriptor)
        if entries is not None:
            return entries, candidate
    return None


def _entries(image: ElfImage, sections: Sections) -> Entries | None:
    info = sections.named(".debug_info")
    if info is None or image.header is None or info.size > _MOST:
        return None
    from soscope.binfmt.dwarf.entries import Entries

    coding = image.header.encoding
    if coding.bits != 64 or coding.order != "<":
        return None  # only the agent's machines read prototypes from debug information
    try:
        contents = sections.unpacked_all(_SECTIONS, coding, _MOST)
    except (FormatError, OSError):
        return None  # damaged debug information describes nothing
    if contents is None:
        return None  # too large, or compressed in an unknown way
    return Entries(*contents.values())


# Functions with the name of a declared function, but defined by another library.
#
# The agent decides slot by slot which of the two a call reaches. This finds functions that may be
# another library's, so that debug information is read for them.


class ForeignFunctions:
    """Finds such functions in the images of a program, given as (path, image)."""

    def __init__(self, prototypes: Prototypes, images: list[tuple[str, ElfImage]]) -> None:
        self._prototypes = prototypes
        self._paths = images
        self._named: list[tuple[ElfImage, str]] = []
        self._known: dict[str, bool] = {}

    def _images(self) -> list[tuple[ElfImage, str]]:
        """Return the images with their names, made at the first use."""
        if not self._named:
            self._named = [
                (image, image.soname or os.path.basename(path)) for path, image in self._paths
            ]
        return self._named

    def may_be(self, symbol: ElfSymbol) -> bool:
        """Return whether the function that an image calls by a symbol may be another library's."""
        version = symbol.version
        if version and any(self._prototypes.is_of(each, version) for each in TREATMENT_FAMILIES):
            return False
        return self.is_defined(symbol.name)

    def is_defined(self, name: str) -> bool:
        """Return whether an image outside of the name's family defines such a function."""
        if name not in self._known:
            family = self._prototypes.family(name)
            self._known[name] = bool(family) and any(
                not self._prototypes.is_of(family, called) and _has(image, name)
                for image, called in self._images()
            )
        return self._known[name]

    def is_other(self, image: ElfImage, name: str) -> bool:
        """Return whether this image is outside of the name's family and defines such a function."""
        family = self._prototypes.family(name)
        called = next(called for each, called in self._images() if each is image)
        return bool(family) and not self._prototypes.is_of(family, called) and _has(image, name)


def _has(image: ElfImage, name: str) -> bool:
    try:
        return image.symbols.lookup(name) is not None
    except FormatError:
        return False


# The files of a process's images, found by its mappings and kept open for a while.

_MOST_IMAGEFILES = 1000
_MOST_KEPT = 250  # descriptors that stay open
_MOST_LINES = 1 << 13  # lines of mappings of processes

# By line of mappings: path and inode of the mapped file, None if there is none that can be opened.
KnownLines = dict[bytes, tuple[str, int] | None]


class ImageFiles:
    """Files of images, open until they are closed. `all` are (path, image)."""

    def __init__(self, paths: dict[str, int] | list[str]) -> None:
        """Open the files `paths`, in order, each with its inode if that is known."""
        self.all: list[tuple[str, ElfImage]] = []
        self._open: dict[str, tuple[int, int, ElfImage | None]] = {}
        self._strings: dict[str, bytes] = {}
        self.become(paths if isinstance(paths, dict) else dict.fromkeys(paths, 0))

    def become(self, paths: dict[str, int]) -> None:
        """Replace the list of files. Files that are open already stay open."""
        for path in list(self._open):
            if path not in paths or self._open[path][0] != paths[path]:
                self._forget(path)
        self.all = []
        for path, inode in list(paths.items())[:_MOST_IMAGEFILES]:
            if path not in self._open:
                try:
                    descriptor = os.open(path, READING)
                except OSError:
                    continue  # frames of this image are named without the file
                try:
                    if inode not in (0, os.fstat(descriptor).st_ino):
                        os.close(descriptor)  # the path has another file by now
                        continue
                    image: ElfImage | None = ElfImage.from_descriptor(descriptor, path)
                except (FormatError, OSError):
                    image = None
                self._open[path] = inode, descriptor, image
            image = self._open[path][2]
            if image is not None:
                self.all.append((path, image))

    def rest(self) -> None:
        """Close most files if there are many, as they are not needed for a while."""
        for path in list(self._open)[_MOST_KEPT:]:
            self._forget(path)

    def may_define(self, path: str, image: ElfImage, name: str) -> bool:
        """Return whether an image has a symbol `name`, defined or not.

        The second look into the same image is fast. Raises FormatError.
        """
        if path not in self._strings:
            self._strings[path] = image.dynamic_strings()
        return name.encode(errors="surrogateescape") + b"\0" in self._strings[path]

    def _forget(self, path: str) -> None:
        os.close(self._open.pop(path)[1])
        self._strings.pop(path, None)

    def close(self) -> None:
        """Close all files."""
        self.become({})


def mapped(pid: int) -> dict[str, int]:
    """Return the paths of a process's images with their inodes, the program first.

    Raises OSError.
    """
    return _paths(pid, maps.text_of(pid).split(b"\n"), {})


def mapped_at(pid: int, addr: int, known: KnownLines) -> tuple[str, dict[str, int]]:
    """Return the path of the image whose first mapping is at `addr`, and all as `mapped`.

    The path is "" if that file cannot be found. `known` are lines that were parsed before, so
    that they are not parsed again for each image that a process loads. Raises OSError.
    """
    lines = maps.text_of(pid).split(b"\n")
    if len(known) > _MOST_LINES:
        known.clear()
    paths = _paths(pid, lines, known)
    start = b"%08x-" % addr
    here = next((maps.parse_line(line).path for line in lines if line.startswith(start)), "")
    return here if here in paths else "", paths


def _paths(pid: int, lines: list[bytes], known: KnownLines) -> dict[str, int]:
    main = os.readlink(f"/proc/{pid}/exe")
    paths = {main: 0}
    for line in lines:
        if b"xp " not in line and b"xs " not in line:
            continue
        if line not in known:
            known[line] = _file_of(line)
        file = known[line]
        if file is not None and not paths.get(file[0]):
            paths[file[0]] = file[1]
    return paths


def _file_of(line: bytes) -> tuple[str, int] | None:
    """Return path and inode of the mapped file, None if there is none, or if it differs here."""
    mapping = maps.parse_line(line)
    if "x" not in mapping.flags or not mapping.path.startswith("/"):
        return None
    # The path must lead to the same file here, as the process may have another root.
    try:
        is_same = os.stat(mapping.path).st_ino == mapping.inode
    except OSError:
        return None  # the file is gone or may not be read
    return (mapping.path, mapping.inode) if is_same else None


# Prototypes from debug information: of the functions themselves, or from their callers.
#
# gcc describes each function that a unit calls, with the types of its arguments, wherever the
# function is defined. So a program that was built with -g tells what it passes to libraries that
# were not.
#
# Debug information is read for functions that can be hooked and have no prototype, in images that
# have some. Most programs have no such functions or no such images. It is read when the loader has
# mapped the images and the agent has not hooked them yet, so captures are final from the first call
# on.

_SECONDS = 1.0  # seconds of processor time for all images of a program, whose start waits
_LATER = 0.5  # seconds for all images loaded later; the loading thread waits
LTRACE_FILES = ("~/.ltrace.conf", "/etc/ltrace.conf")
_MOST_NAMES = 2000  # mangled C++ names of one program: a third of a second
_MOST_KEPT_DESCRIBED = 1 << 25  # bytes of .debug_info that are kept between two looks at an image
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
        self._room = _MOST_KEPT_DESCRIBED

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
        self._room = _MOST_KEPT_DESCRIBED

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
        """Return the unknown functions that all images or image `only` call, by path."""
        callers: dict[str, set[str]] = {}
        for number, (path, image) in enumerate(images.all):
            if only is None or path == only:
                unknown = self._unknown(image, path, is_main=not number)
                if unknown:
                    callers[path] = unknown
        return callers

    def _may_have_entries(self, image: ElfImage, path: str) -> bool:
        if path not in self._may_have:
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
        return _has(image, name)

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


def _twin(name: str) -> str:
    """Return the other name of a constructor or destructor, which often is the same function.

    Complete objects and bases have one name each (Itanium C++ ABI, 5.1.4.3).
    """
    for mine, others in (("C1E", "C2E"), ("D1E", "D2E")):
        if name.startswith("_Z") and name.count(mine) == 1:
            return name.replace(mine, others)
    return name
