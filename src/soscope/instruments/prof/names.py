# SPDX-License-Identifier: Apache-2.0
"""Names for code of a recording's images: functions, and callers by return address."""

from __future__ import annotations

import os
from bisect import bisect_left

from soscope.binfmt.dwarf.lines import DwarfLines
from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import CHECKSUM_SIZE, ElfImage
from soscope.binfmt.elf.lookup import Name
from soscope.binfmt.elf.unwind import FrameTable
from soscope.binfmt.isa import part
from soscope.binfmt.source import FileSource, open_regular
from soscope.errors import SoscopeError
from soscope.frames.interpreters import Evaluator
from soscope.instruments.prof.model import ProfFunction
from soscope.live.names.containing import HAS_PLACE, NO_SECTION
from soscope.live.names.demangle import LONGEST, Demangler, NoDemangler, usual_name
from soscope.live.names.locate import STUB, Locator, Place
from soscope.live.names.staticnames import ImageNames
from soscope.model.image import TracedImage

# Functions of an image's file, found by link-time address.

UNKNOWN = "?"

_MANGLED = "_Z"
_FUNCTIONS = frozenset((c.STT_FUNC, c.STT_GNU_IFUNC))


class ImageFunctions:
    """The functions of the file at `path`, whose image has the name `image`.

    `identity` is the identity of the profiled image (`ElfImage.identity`), b"" if it is not
    known. If the file has another identity, its functions get no names. `notes` tell what has no
    names, and why. Each function is made once. Without `with_lines` functions have no file and
    line.
    """

    def __init__(
        self, path: str, identity: bytes = b"", *, image: str = "", with_lines: bool = True
    ) -> None:
        self.path = path
        self.image = image or os.path.basename(path)
        self.elf: ElfImage | None = None
        self._notes: list[str] = []
        self._names: ImageNames | None = None
        self._locator: Locator | None = None
        self._frames: FrameTable | None = None
        self._lines: tuple[DwarfLines, int] | None = None
        self._has_lines = with_lines
        self._demangler: Demangler | None = None
        self._demangles = True
        self._bounds: list[int] | None = None
        self._known: dict[tuple[int, str], ProfFunction] = {}
        self._fds: list[int] = []
        fd = open_regular(path)
        if fd is None:
            self._notes.append(f"{path}: cannot be read: its functions have no names")
            return
        self._fds.append(fd)
        try:
            self._open(fd, identity)
        except (SoscopeError, OSError) as error:
            self._notes.append(f"{error}: its functions have no names")

    def _open(self, fd: int, identity: bytes) -> None:
        image = ElfImage.from_source(FileSource(fd, self.path))
        if identity and image.identity != identity:
            # A shorter identity means that the recorder could not tell which file the image is.
            has_id = len(identity) > 1 and len(identity) != CHECKSUM_SIZE
            which = f", which has build-id {identity.hex()}" if has_id else ""
            self._notes.append(
                f"{self.path}: not the file that ran{which}: its functions have no names"
            )
            return
        self.elf = image
        self._names = ImageNames(image, build_id=image.build_id, path=self.path, roots=[""])
        self._locator = Locator(image, self._names)
        try:
            self._frames = FrameTable(image)
        except (SoscopeError, OSError):
            pass  # the file has no unwind tables

    def __del__(self) -> None:
        """Close the files, as readers of a profile in Python do not close it themselves."""
        for fd in self._fds:
            os.close(fd)

    @property
    def notes(self) -> list[str]:
        """Return what could not be read so far, and why."""
        return self._notes + ([] if self._locator is None else self._locator.notes)

    def at(self, vaddr: int) -> ProfFunction:
        """Return the function that holds link-time address `vaddr`.

        If no symbol holds it, return a function with the name UNKNOWN, with the range that the
        unwind tables give, or without a size at `vaddr`. A stub of the linker is `NAME@plt`,
        without a size.
        """
        return self.at_all([vaddr])[0]

    def evaluator(self) -> Evaluator | None:
        """Return a recogniser of an interpreter's evaluator, None if names are missing."""
        if self.elf is None or self._names is None:
            return None
        return Evaluator(self.elf, self._names)

    def at_all(self, vaddrs: list[int]) -> list[ProfFunction]:
        """Return the functions at many link-time addresses, in order. Faster than `at` for each."""
        if self._locator is None:
            return [self._unknown(vaddr) for vaddr in vaddrs]
        try:
            places = self._locator.at_all(vaddrs)
        except (SoscopeError, OSError) as error:
            self._notes.append(f"{error}: its functions have no names")
            self._locator = None
            return [self._unknown(vaddr) for vaddr in vaddrs]
        return [self._function(place) for place in places]

    def in_range(self, start: int, end: int) -> list[tuple[int, int, ProfFunction]]:
        """Return (start, end, function) of consecutive parts that cover [start, end).

        All are link-time addresses. If several functions overlap, a part has the one that `at`
        returns, and UNKNOWN if there is none.
        """
        if start >= end:
            return []
        if self._bounds is None:
            self._bounds = self._all_bounds()
        bounds = self._bounds[bisect_left(self._bounds, start + 1) : bisect_left(self._bounds, end)]
        starts = [start, *bounds]
        stretches: list[tuple[int, int, ProfFunction]] = []
        for begin, finish, function in zip(
            starts, [*bounds, end], self.at_all(starts), strict=True
        ):
            if stretches and _is_same(stretches[-1][2], function):
                stretches[-1] = stretches[-1][0], finish, stretches[-1][2]
            else:
                stretches.append((begin, finish, function))
        return stretches

    def starts(self) -> set[int]:
        """Return the link-time addresses of all functions in all symbol tables."""
        return {
            value
            for _, symbols in (() if self._locator is None else self._locator.parts)
            for name, info, _, section, value, _ in symbols.rows()
            if name and section not in NO_SECTION and info & 15 in _FUNCTIONS
        }

    def _all_bounds(self) -> list[int]:
        """Return the addresses at which symbols begin and end, sorted."""
        bounds: set[int] = set()
        for _, symbols in () if self._locator is None else self._locator.parts:
            for name, info, _, section, value, size in symbols.rows():
                if name and section not in NO_SECTION and HAS_PLACE[info]:
                    bounds.add(value)
                    bounds.add(value + size)
        return sorted(bounds)

    # ---- one function ----

    def _function(self, place: Place) -> ProfFunction:
        if place.symbol is None or not place.is_found:
            return self._unknown(place.addr)
        name, addr, size = place.symbol.name, place.symbol.value, place.symbol.size
        if place.what == STUB:
            addr, size = place.addr - place.offset, 0
            name += "@plt"
        known = self._known.get((addr, name))
        if known is None:
            file, line = self.line_at(addr) or (None, None)
            known = self._known[addr, name] = ProfFunction(
                self.image, self._shown(name), addr, size, self.path, file, line
            )
        return known

    def _unknown(self, vaddr: int) -> ProfFunction:
        start, end = self._extent(vaddr) or (vaddr, vaddr)
        known = self._known.get((start, UNKNOWN))
        if known is None:
            size = end - start
            known = ProfFunction(self.image, UNKNOWN, start, size, self.path)
            self._known[start, UNKNOWN] = known
        return known

    def _extent(self, vaddr: int) -> tuple[int, int] | None:
        if self._frames is None:
            return None
        try:
            return self._frames.extent(vaddr)
        except (SoscopeError, OSError):
            return None  # the unwind tables are damaged

    def _shown(self, name: str) -> str:
        if not self._demangles or not name.startswith(_MANGLED) or len(name) > LONGEST:
            return name
        if self._demangler is None:
            try:
                self._demangler = Demangler()
            except NoDemangler as reason:
                self._demangles = False
                self._notes.append(f"names of C++ stay mangled: {reason}")
                return name
        full = self._demangler(name.encode("utf-8", "surrogateescape"))
        return name if full is None else usual_name(full)

    def line_at(self, vaddr: int) -> tuple[str, int] | None:
        """Return file and line of the instruction at a link-time address, None if not known.

        They come from the file or its debug file.
        """
        if not self._has_lines or self._names is None:
            return None
        if self._lines is None:
            self._lines = self._open_lines(self._names)
            if self._lines is None:
                self._has_lines = False
                return None
        lines, shift = self._lines
        return lines.at(vaddr - shift)

    def _open_lines(self, names: ImageNames) -> tuple[DwarfLines, int] | None:
        try:
            sections = names.sections
            if sections is not None and sections.named(".debug_line") is not None:
                return None if self.elf is None else (DwarfLines(self.elf), 0)
            if names.debug_elf is None or names.debug_path is None:
                return None
            fd = open_regular(names.debug_path)
            if fd is None:
                return None
            self._fds.append(fd)
            source = FileSource(fd, names.debug_path)
            return DwarfLines(ElfImage.from_source(source)), names.shift
        except (OSError, SoscopeError):
            return None  # lines are not known


def _is_same(left: ProfFunction, right: ProfFunction) -> bool:
    return left is right or left.symbol == right.symbol == UNKNOWN


# Names of the functions of the images of a recording. Each file is read once.


class RecordedNames:
    """The functions of all images that are asked for. `with_lines` as in `ImageFunctions`."""

    def __init__(self, *, with_lines: bool = False) -> None:
        self._with_lines = with_lines
        self._files: dict[tuple[str, bytes, str], ImageFunctions] = {}

    def of(self, image: TracedImage) -> ImageFunctions:
        """Return the functions of an image."""
        key = image.path, image.identity, image.label
        known = self._files.get(key)
        if known is None:
            known = ImageFunctions(
                image.path, image.identity, image=image.label, with_lines=self._with_lines
            )
            self._files[key] = known
        return known

    def named(self, image: TracedImage | None, symbol: str, version: str) -> ProfFunction:
        """Return the function that an image exports as `symbol`, which is also its name here.

        `version` is the version of the symbol, "" if it has none.

        The address is not known if a resolver chooses it (STT_GNU_IFUNC), or if the image's file
        has no such symbol.
        """
        if image is None:
            return ProfFunction("", symbol)
        functions = self.of(image)
        addr = 0 if functions.elf is None else _addr_of(functions, symbol, version)
        if not addr:
            return ProfFunction(image.label, symbol, path=image.path)
        at = functions.at(addr)
        if symbol.startswith(_MANGLED) or at.symbol == symbol:
            return at  # by the name that users know
        return ProfFunction(image.label, symbol, at.addr, at.size, image.path, at.file, at.line)

    def method(self, image: TracedImage, name: str, addr: int) -> ProfFunction:
        """Return the function at run-time address `addr`, with the name that Python code uses."""
        at = self.of(image).at(addr - image.load_bias)
        return ProfFunction(image.label, name, at.addr, at.size, image.path, at.file, at.line)

    @property
    def notes(self) -> list[str]:
        """Return what could not be read, and why, except for images without a file (the vDSO)."""
        return [
            note
            for functions in self._files.values()
            if functions.path.startswith("/")
            for note in functions.notes
        ]


def _addr_of(functions: ImageFunctions, symbol: str, version: str) -> int:
    """Return the link-time address of an exported function, 0 if it is not known."""
    assert functions.elf is not None
    try:
        entry = functions.elf.symbols.find(Name(os.fsencode(symbol)), version or None)
    except (SoscopeError, OSError):
        return 0  # the symbols are damaged, but the name is known all the same
    if entry is None or entry.type == c.STT_GNU_IFUNC:
        return 0
    return entry.value


# The calls in an image's code that return to an address.

Code = list[tuple[int, int]]  # (start, end) ranges of code, link-time addresses
Call = tuple[bool, int | None, int | None]  # whether there is one, its target, its slot

_NO_CALL: Call = (False, None, None)


class ReturnAddresses:
    """Finds calls in the code of one image. `is_there` tells whether its machine is supported."""

    def __init__(self, functions: ImageFunctions) -> None:
        self._elf = functions.elf
        header = None if self._elf is None else self._elf.header
        self._code = part(None if header is None else header.arch, "returns")
        self.is_there = self._code is not None

    def call_before(self, vaddr: int) -> Call:
        """Return the call before a link-time address, by `call_before` of the instruction set."""
        if self._code is None or self._elf is None:
            return _NO_CALL
        size: int = self._code.LONGEST
        try:
            code = self._elf.read(vaddr - size, size, "code")
        except SoscopeError:
            return _NO_CALL  # an address outside of the file, from damaged data
        call: Call = self._code.call_before(code, vaddr)
        return call
