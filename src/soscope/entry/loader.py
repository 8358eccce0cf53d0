# SPDX-License-Identifier: Apache-2.0
"""The data of a program's loader: its list of images, and programs started by ld.so."""

from __future__ import annotations

import os
from struct import Struct

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.entry.ptrace import RemoteMemory
from soscope.errors import FormatError
from soscope.model.record import Record
from soscope.proc import maps, status
from soscope.proc.status import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


# The loader's data about a process: `struct r_debug` and its list of `struct link_map`.
#
# See <link.h>. Both have the same layout in glibc and musl, on every 64-bit machine. The list is
# read while the loader may be changing it, so a walk ends at an entry that cannot be read, without
# an error. live/images has two other readers: linkmaps.py, for any class and byte order, takes such
# an entry for damage, and images.py also keeps the bytes that it read, to see later changes.

RT_CONSISTENT = 0
RT_ADD = 1

_DEBUG = Struct("<i4xQQi4xQ")  # version, map, brk, state, ldbase
_LINK = Struct("<QQQQQ")  # addr, name, ld, next, prev
_MAX_IMAGES = 1 << 16  # the same as in the agent's namespace.c
_MAX_PATH = 4096


class RDebug:
    """`struct r_debug`: the first link map, the function called at events, the state."""

    __slots__ = ("brk", "first", "state", "version")

    def __init__(self, data: bytes) -> None:
        self.version, self.first, self.brk, self.state, _ = _DEBUG.unpack(data)


class LinkMap(Record):
    """One image of the list: its load bias and the address of its dynamic section.

    `addr` is the address of its `struct link_map`, which is also dlopen's handle.
    """

    addr: int
    load_bias: int
    name_addr: int
    dynamic: int

    def path(self, memory: RemoteMemory) -> str:
        """Return the path that the loader opened, "" for the program itself."""
        text = memory.read(self.name_addr, 256)
        if b"\0" not in text:
            text = memory.read(self.name_addr, _MAX_PATH)
        return os.fsdecode(text.split(b"\0", 1)[0])

    def image(self, memory: RemoteMemory) -> ElfImage:
        """Return the image, read from memory."""
        return ElfImage.from_dynamic(memory, self.load_bias, self.dynamic)


def read_debug(memory: RemoteMemory, addr: int) -> RDebug | None:
    """Read the `struct r_debug` at `addr`. Return None if no memory is mapped there."""
    data = memory.read(addr, _DEBUG.size)
    return RDebug(data) if len(data) == _DEBUG.size else None


def is_damaged(memory: RemoteMemory, first: int) -> bool:
    """Return whether the list that starts at address `first` is cyclic or far too long.

    The loader may be changing the list meanwhile, so a list that ends at a wrong entry is not
    damaged.
    """
    seen = set()
    for entry in walk(memory, first):
        if entry.addr in seen:
            return True
        seen.add(entry.addr)
    return len(seen) == _MAX_IMAGES


def walk(memory: RemoteMemory, first: int) -> Iterator[LinkMap]:
    """Yield the images of the list that starts at address `first`, in the loader's order."""
    addr = first
    for _ in range(_MAX_IMAGES):
        data = memory.read(addr, _LINK.size)
        if not addr or len(data) < _LINK.size:
            return
        load_bias, name, dynamic, following, _ = _LINK.unpack(data)
        yield LinkMap(addr, load_bias, name, dynamic)
        addr = following


# Programs that a loader was told to start: `ld.so [OPTION…] PROGRAM [ARGUMENT…]`.
#
# The kernel only knows the loader: /proc/PID/exe and the auxiliary vector describe the loader, not
# the program. The address of the program is in the loader's own list.

_PAGE = 4096
# Options with a word, of ld.so(8). musl knows the first three, and also joins the word by "=".
_WITH_WORD = (
    *("--library-path", "--preload", "--argv0"),
    *("--inhibit-rpath", "--audit", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask"),
)
_ALONE = ("--inhibit-cache",)


def is_loader(program: ElfImage) -> bool:
    """Return whether a program without an interpreter is a dynamic loader."""
    try:
        return program.symbol("_dl_debug_state") is not None
    except FormatError:
        return False  # a damaged file starts nothing


def program_of(words: list[str]) -> str | None:
    """Return the program that a loader called with `words` starts, None for none.

    >>> from soscope.entry.loader import program_of
    >>> program_of(["ld.so", "--argv0", "sh", "/bin/dash", "-c", "true"])
    '/bin/dash'
    >>> program_of(["ld.so", "--list", "/bin/dash"])
    """
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("--"):
            return word
        name, joined, _ = word.partition("=")
        if word == "--":  # musl
            return next(rest, None)
        if name in _WITH_WORD:
            if not joined:
                next(rest, None)
        elif word not in _ALONE:
            return None  # the loader starts no program
    return None


def loader_vector(vector: dict[int, int], memory: RemoteMemory) -> dict[int, int]:
    """Return the auxiliary vector as if the loader had been started for a program.

    The entries about the program are left out, because it is not loaded yet. Raises Refused if
    the program headers do not belong to an ELF file that begins on their page.
    """
    headers = vector.get(maps.AT_PHDR, 0)
    base = headers & -_PAGE
    try:
        loader = ElfImage.from_memory(memory, base)
    except FormatError as error:
        raise Refused(f"{status.UNKNOWN_LOADER}: {error}") from error
    if loader.header is None or loader.header.phoff != headers - base:
        raise Refused(status.UNKNOWN_LOADER)
    about = (maps.AT_PHDR, maps.AT_PHNUM, maps.AT_ENTRY)
    rest = {kind: value for kind, value in vector.items() if kind not in about}
    return {**rest, maps.AT_BASE: base}


class StartedProgram:
    """The program that a loader has started: its `path` and its auxiliary vector entries.

    `vector` has AT_PHDR, AT_PHNUM and AT_ENTRY. `image` is the mapped file.
    """

    __slots__ = ("image", "path", "vector")

    def __init__(self, pid: int, memory: RemoteMemory, r_debug: int) -> None:
        """Find the program in the loader's list. Raises Refused if the list does not have it."""
        debug = read_debug(memory, r_debug)
        entry = next(walk(memory, debug.first if debug else 0), None)
        if entry is None:
            raise Refused(status.BY_LOADER)
        mapping = _first_of(maps.read(pid), entry.dynamic)
        try:
            self.image = image = ElfImage.from_memory(memory, mapping.start)
        except FormatError as error:
            raise Refused(f"{status.BY_LOADER}: {error}") from error
        dynamic = [each.vaddr for each in image.segments if each.type == elf.PT_DYNAMIC]
        header = image.header
        if header is None or [entry.load_bias + vaddr for vaddr in dynamic] != [entry.dynamic]:
            raise Refused(status.BY_LOADER)
        self.path = mapping.path
        self.vector = {
            maps.AT_PHDR: mapping.start + header.phoff,
            maps.AT_PHNUM: header.phnum,
            maps.AT_ENTRY: entry.load_bias + header.entry,
        }


def _first_of(mappings: list[maps.Mapping], addr: int) -> maps.Mapping:
    """Return the mapping of the beginning of the file that is mapped at an address."""
    beginning = None
    for mapping in mappings:
        if mapping.path and not mapping.offset:
            beginning = mapping
        if mapping.start <= addr < mapping.end:
            if beginning is not None and beginning.inode == mapping.inode:
                return beginning
            break
    raise Refused(status.BY_LOADER)
