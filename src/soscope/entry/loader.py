# SPDX-License-Identifier: Apache-2.0
"""Programs that a loader was told to start: `ld.so [OPTION…] PROGRAM [ARGUMENT…]`.

The kernel only knows the loader: /proc/PID/exe and the auxiliary vector describe the loader, not
the program. The address of the program is in the loader's own list.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.entry import linkmap
from soscope.entry.memory import RemoteMemory
from soscope.errors import FormatError
from soscope.proc import maps, status
from soscope.proc.status import Refused

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
    the program headers are not those of an ELF file that begins on their page.
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
        debug = linkmap.read_debug(memory, r_debug)
        entry = next(linkmap.walk(memory, debug.first if debug else 0), None)
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
