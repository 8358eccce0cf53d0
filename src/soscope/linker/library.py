# SPDX-License-Identifier: Apache-2.0
"""One file as a loader reads it: its needed libraries, search paths and symbols."""

from __future__ import annotations

import errno
import os
import stat

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.slots import all_symbols
from soscope.binfmt.elf.symboltable import SymbolTable
from soscope.binfmt.source import READING, FileSource
from soscope.errors import FormatError
from soscope.linker.machine import Kind, kind_of
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# Open files that other files name: only regular files, and only while they are read.

_SHORTAGES = (errno.EMFILE, errno.ENFILE)


def demand_regular(path: str) -> int:
    """Open the regular file at `path` for reading; a device or a pipe is not even opened.

    Unlike `binfmt.source.open_regular` it tells why it failed, for messages and for symbols that a
    user looks up, and it works without /proc.

    Raises OSError, FormatError.
    """
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):  # the kernel reports why it may not be opened
        _refuse_others(path, status)  # opening a device may have side effects
    descriptor = os.open(path, READING)
    try:
        _refuse_others(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: str, most: int) -> bytes | None:
    """Return the first `most` bytes of the regular file at `path`, None if it cannot be read.

    Raises OSError if too many files are open, as that tells nothing about this file.
    """
    try:
        descriptor = demand_regular(path)
    except FormatError:
        return None
    except OSError as error:
        demand_files(error)
        return None
    try:
        return os.read(descriptor, min(most, os.fstat(descriptor).st_size))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def demand_files(error: OSError) -> None:
    """Raise the error again if it is a lack of descriptors, as the file may be valid."""
    if error.errno in _SHORTAGES:
        raise error


def _refuse_others(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FormatError(f"{path}: not a regular file", field="file")


class OwnedFile(FileSource):
    """A regular file that is closed when its last user is gone.

    `name` is its path. While it rests it is closed, and a read opens it again.
    """

    __slots__ = ("_identity",)

    def __init__(self, path: str) -> None:
        """Open the file. Raises OSError, FormatError if it is not a regular file."""
        self._descriptor = -1  # for __del__
        super().__init__(demand_regular(path), path)
        self._identity = _identity(self._descriptor)

    @property
    def descriptor(self) -> int:
        """The descriptor of the open file."""
        if self._descriptor < 0:
            self._open_again()
        return self._descriptor

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset`.

        Raises OSError if the file cannot be read, or was replaced meanwhile.
        """
        if self._descriptor < 0:
            self._open_again()
        return super().read(offset, size)

    def rest(self) -> None:
        """Close the file until it is read again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open_again(self) -> None:
        try:
            descriptor = demand_regular(self.name)
        except FormatError:
            descriptor = -1
        if descriptor < 0 or _identity(descriptor) != self._identity:
            if descriptor >= 0:
                os.close(descriptor)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), self.name)
        self._descriptor = descriptor

    def __del__(self) -> None:
        """Close the file."""
        self.rest()


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


DT_AUXILIARY = 0x7FFFFFFD
DT_FILTER = 0x7FFFFFFF
_DF_1_NODEFLIB = 0x800
_DF_1_PIE = 0x08000000
_NAMED = frozenset((c.DT_NEEDED, DT_AUXILIARY, DT_FILTER, c.DT_SONAME, c.DT_RPATH, c.DT_RUNPATH))
_MAX_NAME = 4097  # bytes of a path with its NUL
_MAX_PATHS = 1 << 16
_MAX_LEADING = 4096

Wanted = tuple[str, str | None]  # a symbol with its version
Stamp = tuple[int, int, int, int]  # device, inode, time of the last change, size


def open_image(path: str) -> ElfImage:
    """Open the ELF file at `path` for reading, without waiting for a device or a pipe.

    Raises OSError, FormatError.
    """
    source = OwnedFile(path)
    if not os.fstat(source.descriptor).st_size:
        raise FormatError(f"{path}: an empty file", field="e_ident", offset=0)
    return ElfImage.from_source(source)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the metadata of a file that change when the file changes."""
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


class Library:
    """What a loader reads from one file before it goes on; the same for a program.

    `path` is its path on this machine; links are followed inside the sysroot only as far as
    opening it needs. `leading` are (tag, name) of DT_NEEDED, DT_AUXILIARY and DT_FILTER in order.
    `rpath` and `runpath` are the texts in the file, None if there are none. `image` is None once
    its symbols were read. Its file is only open while it is read.
    """

    __slots__ = (
        "_exports",
        "_is_pie",
        "_wanted",
        "avoids_defaults",
        "flags",
        "image",
        "interpreter",
        "is_program",
        "kind",
        "leading",
        "path",
        "rpath",
        "runpath",
        "soname",
        "stamp",
    )

    def __init__(self, path: str, image: ElfImage, stamp: Stamp | None) -> None:
        self.path = path
        self.image: ElfImage | None = image
        self.stamp = stamp
        self.kind: Kind = kind_of(image)
        self.flags = image.header.flags if image.header is not None else 0
        self._exports: SymbolTable | None = None
        self._wanted: tuple[Wanted, ...] | None = None
        self.leading: list[tuple[int, str]] = []
        self.soname: str | None = None
        self.rpath: str | None = None
        self.runpath: str | None = None
        self.interpreter: str | None = None
        self.avoids_defaults = self._is_pie = False
        try:
            self.interpreter = image.interpreter
            self._read(image)
        except (FormatError, OSError):
            pass  # use what could be read; other commands report such faults
        self.is_program = self.interpreter is not None or (
            image.header is not None and image.header.type == c.ET_EXEC
        )
        if self.runpath is not None:
            self.rpath = None  # elf_get_dynamic_info: it does not count

    def _read(self, image: ElfImage) -> None:
        table = image.locate_pointer(c.DT_STRTAB)
        size = image.dynamic.get(c.DT_STRSZ)
        if table is None:
            return
        for tag, value in image.dynamic.entries:
            if tag == c.DT_FLAGS_1:
                self.avoids_defaults = bool(value & _DF_1_NODEFLIB)
                self._is_pie = bool(value & _DF_1_PIE)
                continue
            if tag not in _NAMED:
                continue
            limit = _MAX_PATHS if tag in (c.DT_RPATH, c.DT_RUNPATH) else _MAX_NAME
            if size is not None:
                limit = min(limit, size - value)
            data = image.source.read(table + value, limit)
            end = data.find(b"\0")
            if end < 0:
                continue  # no loader opens a file with such a name
            text = os.fsdecode(data[:end])
            if tag == c.DT_SONAME:
                self.soname = text
            elif tag == c.DT_RPATH:
                self.rpath = text
            elif tag == c.DT_RUNPATH:
                self.runpath = text
            elif len(self.leading) < _MAX_LEADING:
                self.leading.append((tag, text))

    @property
    def reason_not_loaded(self) -> str | None:
        """Why glibc does not load it as a library, None if it does (_dl_map_object_from_fd)."""
        header = self.image.header if self.image is not None else None
        if header is None:
            return None
        if header.type not in (c.ET_EXEC, c.ET_DYN):
            return "neither a program nor a library"
        if header.type == c.ET_EXEC or self._is_pie:
            return "a program, which cannot be loaded as a library"
        return None

    @property
    def exports(self) -> SymbolTable | None:
        """The dynamic symbols, None if they cannot be read. Reading them closes the file."""
        if self._exports is None and self.image is not None:
            try:
                table = self.image.symbols
                table.read_all()
                self._exports = table
            except FormatError:
                self._exports = None
            except OSError as error:
                demand_files(error)
                self._exports = None
            self.rest()
            self.image = None
        return self._exports

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """The undefined symbols that are not weak; none if they cannot be read."""
        if self._wanted is None:
            self._wanted = self._undefined(lambda _: bool)
        return self._wanted

    def looked_for(self, wanted: Collection[Wanted]) -> list[Wanted]:
        """Return the symbols that a relocation names, as a loader looks up only these."""
        named = self._undefined(lambda image: all_symbols(image).__contains__)
        return [symbol for symbol in wanted if symbol in named]

    def _undefined(self, choose: Callable[[ElfImage], Callable[[int], bool]]) -> tuple[Wanted, ...]:
        """Read the undefined symbols whose indices are chosen."""
        source: OwnedFile | None = None
        try:
            image = open_image(self.path)
            assert isinstance(image.source, OwnedFile)
            source = image.source
            is_chosen = choose(image)
            return tuple(
                (symbol.name, symbol.version)
                for symbol in image.symbols.undefined()
                if symbol.binding == c.STB_GLOBAL and is_chosen(symbol.index)
            )
        except FormatError:
            return ()
        except OSError as error:
            demand_files(error)
            return ()
        finally:
            if source is not None:
                source.rest()

    def rest(self) -> None:
        """Close its file until it is read again."""
        source = None if self.image is None else self.image.source
        if isinstance(source, OwnedFile):
            source.rest()


class RefusedFile(Record):
    """Why a file is not taken; `is_final` tells that the loader then gives up."""

    why: str
    is_final: bool
