# SPDX-License-Identifier: Apache-2.0
"""The kinds of code in a process, and the stacks of its stopped threads."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right

from soscope.binfmt.elf.image import ElfImage
from soscope.entry.agent.visit import Visit
from soscope.entry.isa import arch
from soscope.entry.memory import RemoteMemory
from soscope.errors import FormatError
from soscope.proc import maps

# The kinds of code that a thread may be in.
PLAIN, LIBC, LOADER, ALLOCATOR, AGENT, NOBODY = range(6)

_ALLOCATES = ("malloc", "free", "calloc", "realloc")
# Before glibc 2.34 the C library was several images.
_LIBC_NAMES = ("libpthread.", "libpthread-", "libdl.", "libdl-", "librt.", "librt-", "ld-musl")
_VDSO = "[vdso]"
_START = "__libc_start_main"
_MOST_STACK = 256 << 20
_NEAR = 256 << 10  # bytes of a stack in which each word is checked
_MOST_CODE = 64 << 20
_LONGEST_RESTORER = max(map(len, arch.RESTORERS))


class Stack:
    """The memory from below a stack pointer to the end of its mapping."""

    __slots__ = ("data", "start")

    def __init__(self, start: int, data: bytes) -> None:
        self.start = start
        self.data = data


class CodePlaces:
    """The mappings of a visited process. `look` reads them, preferably while it is stopped."""

    __slots__ = (
        "_code_ends",
        "_code_starts",
        "_kinds",
        "_lines",
        "_restorers",
        "_seen",
        "_starts",
        "_visit",
        "is_musl",
    )

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._kinds: dict[tuple[int, str], int] = {}
        self._restorers: dict[tuple[int, str], set[int]] = {}
        self._lines: list[bytes] = []
        self._starts: list[int] = []
        self._code_starts: list[int] = []
        self._code_ends: list[int] = []
        self._seen: dict[int, bool] = {}  # code address -> is a signal restorer
        self.is_musl = visit.facts.loader.symbol(_START) is not None
        self.look()
        for mapping in map(maps.parse_line, self._lines):
            # computed before any thread is stopped
            if mapping.flags[2] == "x":
                self._kind(mapping)

    def look(self) -> None:
        """Read the mappings. Raises OSError."""
        self._lines = [line for line in maps.text_of(self._visit.tid).split(b"\n") if line]
        self._starts = [maps.start_of(line) for line in self._lines]
        code = [maps.parse_line(line) for line in self._lines if b"x" in line[:48]]
        code = [mapping for mapping in code if mapping.flags[2] == "x"]
        self._code_starts = [mapping.start for mapping in code]
        self._code_ends = [mapping.end for mapping in code]
        self._seen = {}

    def mapping(self, addr: int) -> maps.Mapping | None:
        """Return the mapping of an address, None if nothing is mapped there."""
        index = bisect_right(self._starts, addr) - 1
        if index < 0:
            return None
        mapping = maps.parse_line(self._lines[index])
        return mapping if addr < mapping.end else None

    def is_data_of_image(self, addr: int) -> bool:
        """Return whether an address is in a file's mapping, or in memory right behind it (.bss)."""
        index = bisect_right(self._starts, addr) - 1
        if index < 0:
            return False
        mapping = maps.parse_line(self._lines[index])
        if not mapping.path and index:
            before = maps.parse_line(self._lines[index - 1])
            if before.end == mapping.start and before.flags.endswith("w-p"):
                mapping = before
        return mapping.path.startswith("/")

    # ---- code ----

    def kind(self, addr: int) -> int:
        """Return the kind of code at an address: PLAIN, LIBC, … or NOBODY.

        It is NOBODY if the address is in no image. An image that defines malloc is an ALLOCATOR,
        unless it is the C library.
        """
        visit = self._visit
        if any(agent.holds(addr) for agent in visit.agents):
            return AGENT
        if any(start <= addr < end for start, end in visit.loader_code):
            return LIBC if self.is_musl else LOADER
        mapping = self.mapping(addr)
        return NOBODY if mapping is None or mapping.flags[2] != "x" else self._kind(mapping)

    def _kind(self, mapping: maps.Mapping) -> int:
        key = mapping.start, mapping.path
        if key not in self._kinds:
            self._kinds[key] = self._look_at(mapping)
        return self._kinds[key]

    def _look_at(self, mapping: maps.Mapping) -> int:
        if not mapping.path.startswith("/"):
            return NOBODY
        if mapping.path.startswith("/memfd:soscope"):
            return AGENT
        first = self._first(mapping)
        return NOBODY if first is None else self._kind_of_image(first)

    def _first(self, mapping: maps.Mapping) -> maps.Mapping | None:
        """Return the mapping of the beginning of a mapping's file, None if it is not mapped."""
        index = bisect_right(self._starts, mapping.start) - 1
        for line in reversed(self._lines[: index + 1]):
            first = maps.parse_line(line)
            if first.path != mapping.path or first.inode != mapping.inode:
                continue
            if not first.offset:
                return first
        return None

    def image_at(self, addr: int) -> int:
        """Return the start address of the image whose code is at an address, 0 if there is none."""
        for agent in self._visit.agents:
            if agent.holds(addr):
                return agent.base
        mapping = self.mapping(addr)
        if mapping is None or mapping.flags[2] != "x":
            return 0
        if mapping.path == _VDSO:
            return mapping.start
        first = self._first(mapping) if mapping.path.startswith("/") else None
        return 0 if first is None else first.start

    def _kind_of_image(self, first: maps.Mapping) -> int:
        memory = self._visit.memory
        try:
            image = ElfImage.from_memory(memory, first.start)
            if image.symbol(_START) is not None:
                return LIBC
            if os.path.basename(first.path).startswith(_LIBC_NAMES):
                return LIBC
            if any(image.symbol(name) is not None for name in _ALLOCATES):
                return ALLOCATOR
        except FormatError:
            return NOBODY  # the kind of code is not known
        return PLAIN

    def name(self, addr: int) -> str:
        """Return the name of the image at an address, or the address."""
        mapping = self.mapping(addr)
        if mapping is None or not mapping.path:
            return f"{addr:#x}"
        return os.path.basename(mapping.path)

    # ---- stacks ----

    def stack(self, sp: int) -> Stack:
        """Read a stack from its red zone up. `data` is empty if nothing is mapped there."""
        mapping = self.mapping(sp)
        if mapping is None:
            return Stack(sp, b"")
        start = max(sp - arch.RED_ZONE & -8, mapping.start)
        size = min(mapping.end - start, _MOST_STACK)
        return Stack(start, self._visit.memory.read(start, size))

    def handlers(self, stack: Stack, sp: int) -> list[int]:
        """Return the stack pointers that were interrupted by handlers that have not returned.

        Remains of earlier handlers may look the same.
        """
        memory, data = self._visit.memory, stack.data
        first = max(sp - stack.start, 0) & -8
        words = array("Q", data[first : first + _NEAR & -8])
        places = {word for word in set(words) if self._is_restorer(memory, word)}
        offsets: set[int] = set()
        for word in places | self._known_restorers():
            pattern = word.to_bytes(8, "little")
            at = data.find(pattern, first)
            while at >= 0:
                if at % 8 == 0:
                    offsets.add(at)
                at = data.find(pattern, at + 1)
        frames = (data[at : at + arch.FRAME_SIZE] for at in sorted(offsets))
        return [before for frame in frames if (before := arch.interrupted_sp(frame))]

    def _is_restorer(self, memory: RemoteMemory, word: int) -> bool:
        index = bisect_right(self._code_starts, word) - 1
        if index < 0 or word >= self._code_ends[index]:
            return False
        if word not in self._seen:
            self._seen[word] = memory.read(word, _LONGEST_RESTORER).startswith(arch.RESTORERS)
        return self._seen[word]

    def _known_restorers(self) -> set[int]:
        """Return the signal restorers of the C library, which nearly all programs use."""
        places: set[int] = set()
        for key, kind in self._kinds.items():
            if kind != LIBC:
                continue
            if key not in self._restorers:
                self._restorers[key] = self._find_restorers(key[0])
            places |= self._restorers[key]
        return places

    def _find_restorers(self, start: int) -> set[int]:
        mapping = self.mapping(start)
        if mapping is None:
            return set()
        code = self._visit.memory.read(start, min(mapping.end - start, _MOST_CODE))
        places = set()
        for pattern in arch.RESTORERS:
            at = code.find(pattern)
            while at >= 0:
                places.add(start + at)
                at = code.find(pattern, at + 1)
        return places
