# SPDX-License-Identifier: Apache-2.0
"""The file of a dynamic linker: its kind, its functions, and the targets of its pointers."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf import sections as debuglink
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.slots import relocations
from soscope.binfmt.elf.symboltable import SymbolArray, dynamic_table, static_table
from soscope.binfmt.elf.unwind import code_ranges
from soscope.errors import FormatError, SoscopeError
from soscope.inspect.audit import isa
from soscope.inspect.audit.machine import InstructionSet
from soscope.linker.library import open_image

GLIBC = "glibc"
MUSL = "musl"

_PF_X, _PF_W = 1, 2
_ET_DYN = 3
_MAX_PADDING = 16
# symbol that only this kind of loader defines
_SIGNS = {"_rtld_global": GLIBC, "_r_debug": GLIBC, "_dl_debug_addr": MUSL}
_CODE = (c.STT_FUNC, c.STT_GNU_IFUNC, c.STT_NOTYPE)


class CodePiece(NamedTuple):
    """One piece of code: a function, or its cold part."""

    vaddr: int
    size: int


class PointerTarget(NamedTuple):
    """The target of a pointer in the file: a function, and the name by which others replace it."""

    vaddr: int
    interposed_as: str


class Loader:
    """The file of one dynamic linker; `kind` is GLIBC or MUSL."""

    def __init__(self, image: ElfImage, path: str, kind: str) -> None:
        self.image = image
        self.path = path
        self.kind = kind
        self.machine = _machine(image, path) if kind != MUSL else None
        self.functions = [CodePiece(*bounds) for bounds in code_ranges(image)]
        self._check_size()
        self._starts = [function.vaddr for function in self.functions]
        self._names: list[tuple[int, str]] | None = None
        self._objects: list[tuple[int, int, str]] = []
        self._pointers: dict[int, PointerTarget] | None = None
        self.table = image.dynamic.get(c.DT_PLTGOT) or 0

    def _check_size(self) -> None:
        """Raise FormatError if functions overlap, because bytes would be read again and again."""
        parts = [
            segment
            for segment in self.image.segments
            if segment.type == c.PT_LOAD and segment.flags & _PF_X
        ]
        room = sum(part.filesz for part in parts)
        told = sum(function.size for function in self.functions)
        if told > room:
            raise FormatError(
                f"{self.path}: .eh_frame: {told} bytes of functions in only {room} bytes of code",
                field=".eh_frame",
                offset=0,
            )

    @property
    def arch(self) -> str:
        """The architecture's name, even if it is not known."""
        assert self.image.header is not None
        return self.image.header.arch_name

    @property
    def isa(self) -> InstructionSet:
        """The instruction set; only for loaders that bind lazily."""
        assert self.machine is not None
        return self.machine

    def function_at(self, vaddr: int) -> CodePiece | None:
        """Return the piece of code that contains a link-time address."""
        at = bisect_right(self._starts, vaddr) - 1
        if at < 0:
            return None
        function = self.functions[at]
        return function if vaddr < function.vaddr + function.size else None

    def is_code(self, vaddr: int) -> bool:
        """Return whether a link-time address is in an executable segment."""
        return self._segment(vaddr, _PF_X)

    def is_function(self, vaddr: int) -> bool:
        """Return whether a function begins at a link-time address, or at padding before it."""
        function = self.function_at(vaddr)
        return function is not None and vaddr - function.vaddr < _MAX_PADDING

    @property
    def writable(self) -> tuple[int, int]:
        """The range of link-time addresses with all writable segments."""
        parts = [
            segment
            for segment in self.image.segments
            if segment.type == c.PT_LOAD and segment.flags & _PF_W
        ]
        if not parts:
            return 0, 0
        return min(part.vaddr for part in parts), max(part.vaddr + part.memsz for part in parts)

    def is_writable(self, vaddr: int) -> bool:
        """Return whether memory at an address is writable while the process runs (not RELRO)."""
        if not self._segment(vaddr, _PF_W):
            return False
        return not any(
            segment.type == c.PT_GNU_RELRO and 0 <= vaddr - segment.vaddr < segment.memsz
            for segment in self.image.segments
        )

    def _segment(self, vaddr: int, flag: int) -> bool:
        return any(
            segment.type == c.PT_LOAD
            and segment.flags & flag
            and 0 <= vaddr - segment.vaddr < segment.memsz
            for segment in self.image.segments
        )

    def code(self, function: CodePiece) -> bytes:
        """Read the bytes of a function. Raises FormatError."""
        return self.image.read(function.vaddr, function.size, "code")

    def bytes_at(self, vaddr: int, size: int) -> bytes:
        """Return up to `size` bytes of code at a link-time address, none if the file has none."""
        try:
            return self.image.source.read(self.image.locate(vaddr), size)
        except FormatError:
            return b""

    # ---- pointers ----

    def pointer(self, vaddr: int) -> PointerTarget | None:
        """Return the target of the pointer at a link-time address after relocation.

        Return None if the pointer leads to no code, or if the file does not tell.
        """
        if self._pointers is None:
            self._pointers = self._relocated()
        known = self._pointers.get(vaddr)
        if known is not None:
            return known
        word = self.image.encoding.word
        try:
            raw = self.image.source.read(self.image.locate(vaddr), word.size)
        except FormatError:
            return None
        if len(raw) < word.size:
            return None
        (value,) = word.unpack(raw)
        return PointerTarget(value, "") if value and self.is_code(value) else None

    def _relocated(self) -> dict[int, PointerTarget]:
        image = self.image
        assert image.header is not None
        relocated: dict[int, PointerTarget] = {}
        symbols = dynamic_table(image)
        is_wide = image.encoding.bits == 64
        shift, mask = (32, 0xFFFFFFFF) if is_wide else (8, 0xFF)
        arch = image.header.arch
        relative = 0 if arch is None else arch.relocations.relative
        for _, (where, info, addend), _ in relocations(image):
            index = info >> shift
            if index and index < len(symbols):
                symbol = symbols.symbol(index)
                if symbol.section != c.SHN_UNDEF and symbol.type in _CODE:
                    relocated[where] = PointerTarget(symbol.value, symbol.name)
            elif relative and info & mask == relative and addend and self.is_code(addend):
                relocated[where] = PointerTarget(addend, "")
        return relocated

    # ---- names ----

    def name(self, vaddr: int) -> str:
        """Return the name of the function that begins at a link-time address, "" if it has none."""
        names = self._all_names()
        at = bisect_right(names, (vaddr, "\U0010ffff")) - 1
        return names[at][1] if at >= 0 and names[at][0] == vaddr else ""

    def name_of(self, function: CodePiece) -> str:
        """Return the name of a function or ""; the symbol may be behind some padding."""
        names = self._all_names()
        at = bisect_right(names, (function.vaddr, ""))
        if at < len(names) and names[at][0] < function.vaddr + min(function.size, 16):
            return names[at][1]
        return ""

    def object_at(self, vaddr: int) -> str:
        """Return NAME or NAME+0xN of the variable at a link-time address, "" if unknown."""
        self._all_names()
        best = ""
        for start, size, name in self._objects:
            if start <= vaddr < start + max(size, 1):
                best = name if vaddr == start else f"{name}+{vaddr - start:#x}"
                if vaddr == start:
                    break
        return best

    def _all_names(self) -> list[tuple[int, str]]:
        if self._names is None:
            names: dict[int, str] = {}
            for table in self._tables():
                for name, info, _, section, value, size in table.rows():
                    text = table.text(name).partition("@")[0]
                    if section == c.SHN_UNDEF or not text:
                        continue
                    if info & 15 in (c.STT_FUNC, c.STT_GNU_IFUNC):
                        old = names.get(value)
                        if old is None or _rank(text) < _rank(old):
                            names[value] = text
                    elif info & 15 in (c.STT_OBJECT, c.STT_NOTYPE) and size:
                        self._objects.append((value, size, text))
            self._names = sorted(names.items())
        return self._names

    def _tables(self) -> list[SymbolArray]:
        """Return the symbol tables that belong to the file; there may be none."""
        image = self.image
        tables = []
        try:
            tables.append(dynamic_table(image))
            sections = Sections.read(image)
            tables.append(static_table(image.source, sections, image.encoding))
        except FormatError:
            pass  # names are only for display
        try:
            if image.build_id:
                debug = open_image(debuglink.build_id_path(image.build_id))
                theirs = Sections.read(debug)
                if debuglink.file_build_id(debug, theirs) == image.build_id:
                    tables.append(static_table(debug.source, theirs, debug.encoding))
        except (FormatError, OSError):
            pass  # no debug file of this build; names are only for display
        return tables


def _rank(name: str) -> tuple[bool, int, str]:
    """Return a sort key that puts the best-known name first: __GI_x is also x."""
    return name.startswith("__GI_"), len(name), name.lower()


def own_loader() -> str:
    """Return the path of the loader of this Python interpreter.

    Raises SoscopeError if it has none.
    """
    program = os.readlink("/proc/self/exe")
    try:
        interpreter = open_image("/proc/self/exe").interpreter
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SoscopeError(f"cannot open '{program}': {reason}", errno=error.errno) from error
    if interpreter is None:
        raise SoscopeError(
            f"'{program}' is static: it has no dynamic linker", hint="name one: LD.SO"
        )
    return interpreter


def open_loader(path: str) -> Loader:
    """Open the dynamic linker at `path`.

    Raises SoscopeError (slug no-such-file; no-loader for a file of another kind), FormatError.
    """
    if os.path.isdir(path):
        raise SoscopeError(f"'{path}' is a directory", slug="no-such-file")
    try:
        image = open_image(path)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SoscopeError(
            f"cannot open '{path}': {reason}", slug="no-such-file", errno=error.errno
        ) from error
    return Loader(image, path, _kind(image, path))


def _kind(image: ElfImage, path: str) -> str:
    """Return the kind of a loader. Raises SoscopeError if the file is not a loader."""
    assert image.header is not None
    interpreter = image.interpreter
    if image.header.type == _ET_DYN and interpreter is None:
        # libraries may import one of these symbols: only the loader defines it
        for name, kind in _SIGNS.items():
            symbol = image.symbol(name)
            if symbol is not None and symbol.is_defined:
                return kind
    hint = None
    if interpreter is not None:
        hint = f"it is loaded by {interpreter}: soscope audit-resolver {interpreter}"
    raise SoscopeError(f"'{path}' is no dynamic linker", slug="no-loader", hint=hint)


def _machine(image: ElfImage, path: str) -> InstructionSet:
    """Return the instruction set of a file.

    Raises SoscopeError if it is not known, or if capstone is not installed.
    """
    assert image.header is not None
    try:
        machine = isa.machine_of(image.header)
        if machine is not None:
            return machine
    except ImportError as error:
        raise SoscopeError(
            "audit-resolver needs the package 'capstone', which is not installed",
            slug="no-extra",
            hint="pip install 'soscope[disasm]'",
        ) from error
    raise SoscopeError(
        f"'{path}' is for {image.header.arch_name}: audit-resolver knows {isa.known()}",
        slug="no-disassembler",
    )
