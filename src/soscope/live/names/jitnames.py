# SPDX-License-Identifier: Apache-2.0
"""Names of code that a program made while it ran.

Programs publish such names in two ways. One is the perf map, a text file of lines "START SIZE
NAME" (rule "perf-map"; tools/perf/Documentation/jit-interface.txt of Linux). The other is the
list of ELF files in memory at `__jit_debug_descriptor` (rule "jit"; GDB manual, "JIT Interface").
"""

from __future__ import annotations

import os
from bisect import bisect_right
from heapq import heappop, heappush
from io import BytesIO
from itertools import islice, pairwise
from struct import Struct

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.symboltable import static_table
from soscope.binfmt.source import BufferSource, open_regular
from soscope.errors import FormatError, SoscopeError
from soscope.live.images.space import Space
from soscope.model.record import Record
from soscope.proc.status import read_status

PERF_MAP = "perf-map"
JIT = "jit"

_MAX_MAP = 1 << 26
_MAX_FILES = 1 << 16
_MAX_FILE = 1 << 26
_MAX_BYTES = 1 << 28  # bytes of all files, as one may be listed thousands of times
_MAX_NAMES = 1 << 19  # names of one process: two seconds, and 256 MiB in soscope
# version, action flag, relevant entry, first entry
_DESCRIPTOR = {64: "IIQQ", 32: "IIII"}
# next, previous, address and size of the file; i386 aligns the size to 4
_ENTRY = {64: "QQQQ", 32: "IIIQ"}


class JitName(Record):
    """A piece of code: `start` is a run-time address, `size` is 0 if it is not known."""

    start: int
    size: int
    name: str
    rule: str
    is_function: bool


class JitRoom(Record):
    """The limits for reading one process: bytes of files, and number of names of all sources.

    `left_out` tells that something was not read.
    """

    bytes: int = _MAX_BYTES
    names: int = _MAX_NAMES
    left_out: bool = False


class JitNames:
    """Pieces of code in the order in which they were made; a later one replaces earlier ones."""

    __slots__ = ("_by_name", "_ends", "_names", "_owners", "_starts", "_unsized")

    def __init__(self, names: list[JitName]) -> None:
        self._names = names
        self._by_name: dict[str, list[JitName]] | None = None
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._owners: list[JitName] = []
        self._unsized = {name.start: name for name in names if not name.size}
        self._sweep([(name.start, order) for order, name in enumerate(names) if name.size])

    def _sweep(self, begins: list[tuple[int, int]]) -> None:
        """Divide the address space into ranges with one owner each."""
        begins.sort()
        edges = sorted({start for start, _ in begins} | {self._end(order) for _, order in begins})
        active: list[int] = []
        at = 0
        for edge, following in pairwise(edges):
            while at < len(begins) and begins[at][0] <= edge:
                heappush(active, -begins[at][1])
                at += 1
            while active and self._end(-active[0]) <= edge:
                heappop(active)
            if active:
                self._starts.append(edge)
                self._ends.append(following)
                self._owners.append(self._names[-active[0]])

    def _end(self, order: int) -> int:
        return self._names[order].start + self._names[order].size

    def at(self, addr: int) -> JitName | None:
        """Return the code that contains run-time address `addr`, None if there is none."""
        at = bisect_right(self._starts, addr) - 1
        if at >= 0 and addr < self._ends[at]:
            return self._owners[at]
        return self._unsized.get(addr)

    def find(self, name: str) -> list[JitName]:
        """Return all code called `name` that no later code has replaced."""
        if self._by_name is None:
            self._by_name = {}
            for code in self._names:
                self._by_name.setdefault(code.name, []).append(code)
        return [same for same in self._by_name.get(name, []) if self.at(same.start) is same]


# ---- perf maps ----


def perf_map_path(space: Space) -> str:
    """Return the path of the perf map, which has the process's own view of its id in its name."""
    try:
        number = int(read_status(space.tid)["NStgid"].split()[-1])
    except (KeyError, SoscopeError):
        number = space.pid  # an older kernel, or a process that has ended
    return f"/proc/{space.tid}/root/tmp/perf-{number}.map"


def perf_map(space: Space, notes: list[str], room: JitRoom) -> JitNames:
    """Read the perf map of a process; empty if there is none.

    Anybody may put a file into /tmp. If the file belongs to neither the process's user nor root,
    soscope refuses it, and adds a note. It follows no symbolic link, because the owner of a link
    may have no right to read the file behind it.
    """
    if not space.is_here:
        return JitNames([])
    path = perf_map_path(space)
    descriptor = open_regular(path, may_be_link=False)
    if descriptor is None:
        return JitNames([])
    try:
        status = os.fstat(descriptor)
        if status.st_uid not in _owners(space.tid):
            notes.append(f"{path}: not used: it belongs to user {status.st_uid}")
            return JitNames([])
        if status.st_size > _MAX_MAP:
            notes.append(f"{path}: not used: {status.st_size} bytes")
            room.left_out = True
            return JitNames([])
        with open(descriptor, "rb", closefd=False) as file:
            names = parse_perf_map(file.read(_MAX_MAP), room.names + 1)
        if len(names) > room.names:
            notes.append(
                f"{path}: not whole: the lines behind the first {room.names:,} are not read"
            )
            names.pop()
            room.left_out = True
        room.names -= len(names)
        return JitNames(names)
    except OSError as error:
        notes.append(f"{path}: {error.strerror}")
        return JitNames([])
    finally:
        os.close(descriptor)


def _owners(tid: int) -> set[int]:
    """Return the users that a process runs as, and root."""
    try:
        return {0, *map(int, read_status(tid)["Uid"].split())}
    except (KeyError, SoscopeError):
        return {0}  # it has ended: only root's file would be used


def parse_perf_map(text: bytes, most: int = _MAX_NAMES) -> list[JitName]:
    """Parse up to `most` lines of a perf map.

    Lines that are not valid are skipped, also an incomplete last line.
    """
    names: list[JitName] = []
    for line in BytesIO(text):
        if len(names) == most:
            break
        fields = line.split(None, 2)
        if len(fields) < 3:
            continue
        try:
            start, size = int(fields[0], 16), int(fields[1], 16)
        except ValueError:
            continue  # not a valid line
        name = os.fsdecode(fields[2].rstrip(b"\r\n"))
        names.append(JitName(start, size, name, PERF_MAP, is_function=True))
    return names


# ---- GDB's interface ----


def registered(space: Space, descriptor: int, notes: list[str], room: JitRoom) -> list[JitName]:
    """Return the symbols of the files listed by the `__jit_debug_descriptor` at `descriptor`."""
    order, bits = space.order, space.bits
    layout, entry = Struct(order + _DESCRIPTOR[bits]), Struct(order + _ENTRY[bits])
    data = space.read(descriptor, layout.size)
    if len(data) < layout.size:
        return []
    version, _, _, at = layout.unpack(data)
    if version != 1:
        if version:
            notes.append(f"process {space.pid}: JIT interface of unknown version {version}")
        return []
    names: list[JitName] = []
    seen: set[int] = set()
    while at and at not in seen and len(seen) < _MAX_FILES:
        seen.add(at)
        data = space.read(at, entry.size)
        if len(data) < entry.size:
            break
        at, _, addr, size = entry.unpack(data)
        if size > room.bytes or not room.names:
            notes.append(f"process {space.pid}: the rest of its JIT files is not read: too many")
            room.left_out = True
            break
        content = space.read(addr, size) if 0 < size <= _MAX_FILE else b""
        room.bytes -= len(content)
        if not content:
            continue
        try:
            names += _symbols(BufferSource(content, f"JIT file at {addr:#x}"), room)
        except FormatError as error:
            notes.append(str(error))
    return names


def _symbols(source: BufferSource, room: JitRoom) -> list[JitName]:
    """Return functions and objects of one file; in a relocatable file, sections have the addresses.

    Other symbols use up the limit in the same way.
    """
    elf = ElfImage.from_source(source)
    sections = Sections.read(elf)
    table = static_table(source, sections, elf.encoding)
    is_relative = elf.header is not None and elf.header.type == c.ET_REL
    names = []
    for name, info, _, section, value, size in islice(table.rows(), room.names):
        room.names -= 1
        kind = info & 15
        if not name or section == c.SHN_UNDEF or kind not in (c.STT_FUNC, c.STT_OBJECT):
            continue
        start = value
        if is_relative and section != c.SHN_ABS:
            if section >= len(sections.all) or not sections.all[section].vaddr:
                continue
            start += sections.all[section].vaddr
        is_function = kind == c.STT_FUNC
        names.append(JitName(start, size, table.text(name), JIT, is_function=is_function))
    return names
