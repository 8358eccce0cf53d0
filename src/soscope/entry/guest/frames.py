# SPDX-License-Identifier: Apache-2.0
"""The frames of another process's threads, and the threads inside a range of code."""

from __future__ import annotations

import os
import time
from array import array
from bisect import bisect_right

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.unwind import FrameTable, Row, caller
from soscope.entry.agent.resident import words_between
from soscope.entry.agent.visit import Visit
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory
from soscope.errors import FormatError
from soscope.model.record import Record, fresh
from soscope.proc import maps
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.elf.unwind import Registers, Word


# The kinds of code in a process, and the stacks of its stopped threads.

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


class Stack(Record):
    """The memory from below a stack pointer to the end of its mapping."""

    start: int
    data: bytes


class CodePlaces:
    """The mappings of a visited process. `look` reads them, preferably while it is stopped."""

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


# The frames of a thread of another process, by the unwind tables of its images.
#
# A walk is reliable only if it comes to an explicit end, because then each step was right.
# Compilers and the C library describe every instruction (-fasynchronous-unwind-tables), including
# the prologue and epilogue of functions, stubs, signal frames and the vDSO. Code of no image, and
# images without tables, end a walk early.

MOST_FRAMES = 50_000  # takes a twentieth of a second
_ENTRY = 32  # bytes of a program's start code, which has no tables

# The end of a walk.
EARLY = "early"  # the next caller is not known
SAID = "said"  # the tables mark the outermost frame
ZERO = "zero"  # the return address is 0 or in the program's start code


class Walk(Record):
    """A walk from a thread's registers up its stack.

    `places` are the program counter and, for each caller, the last byte of its call instruction.
    `end` tells how the walk ended, and `sp` is the stack pointer there.
    """

    places: list[int] = fresh(list)
    end: str = EARLY
    sp: int = 0


class Frames:
    """Walks stacks of one process, which need not be stopped: the tables do not change."""

    __slots__ = ("_entry", "_memory", "_places", "_rows", "_tables")

    def __init__(self, visit: Visit, places: CodePlaces) -> None:
        self._memory: RemoteMemory = visit.memory
        self._places = places
        self._entry = visit.facts.auxv.get(maps.AT_ENTRY, 0)
        self._tables: dict[int, tuple[FrameTable, int] | None] = {}
        self._rows: dict[int, Row | None] = {}

    def walk(self, registers: Registers, read: Word, most: int = MOST_FRAMES) -> Walk:
        """Walk at most `most` frames of a stack, whose words `read` returns."""
        walk = Walk()
        back = 0  # 1: a return address may be in the next function
        for _ in range(most):
            pc, sp = registers.get(arch.PC_COLUMN), registers.get(arch.SP_COLUMN)
            if pc is None or sp is None:
                break
            walk.sp = sp
            if not pc and back:
                walk.end = ZERO
                break
            walk.places.append(pc - back)
            row = self._row(pc - back)
            if row is None:
                if back and 0 < pc - self._entry < _ENTRY:
                    walk.end = ZERO
                break
            if row.is_last:
                walk.end = SAID
                break
            try:
                above = caller(row, registers, read, arch.SP_COLUMN)
            except FormatError:
                break  # damaged rules end the walk like missing ones
            leads_elsewhere = row.is_signal or arch.SP_COLUMN in row.rules
            if not leads_elsewhere and (above[arch.SP_COLUMN] or 0) <= sp:
                break
            back = 0 if row.is_signal else 1
            registers = above
        return walk

    def _row(self, addr: int) -> Row | None:
        """Return the row of the unwind tables for an address, None if there is none."""
        if addr in self._rows:
            return self._rows[addr]
        row = None
        base = self._places.image_at(addr)
        if base and base not in self._tables:
            self._tables[base] = self._table(base)
        home = self._tables[base] if base else None
        if home is not None:
            table, bias = home
            try:
                row = table.row(addr - bias)
            except FormatError:
                row = None
        if row is not None and row.returns != arch.PC_COLUMN:
            row = None
        self._rows[addr] = row
        return row

    def _table(self, base: int) -> tuple[FrameTable, int] | None:
        try:
            image = ElfImage.from_memory(self._memory, base)
            return FrameTable(image), image.load_bias
        except FormatError:
            return None  # the walk ends there, so the thread is not used


# Find the threads inside a range of code: at an instruction in it, or returning to one.
#
# Most threads have no word at all that leads there, which is quickly checked. The stacks of the
# others are copied, and walked when the process runs again. A word counts if it is the return
# address of a frame. A word left over from earlier calls does not count. If a walk does not come to
# its end, every word counts.

_MOST_STACKS = 4  # stacks of a thread: one for each handler with its own stack
_MOST_KEPT = 64 << 20  # bytes of stacks; in further ones each word counts
_MOST_READ = 1 << 30  # bytes while the process is stopped; further threads are suspects
_MOST_ALTOGETHER = 500_000  # frames of all threads; they take half a second
_BEGINNING = 4  # frames
_DESCRIPTOR = 2304  # bytes of glibc's `struct pthread`
_WORD = 8
_PAUSE = 0.002  # seconds between the first two looks


class Suspect(Record):
    """A thread with words that lead into the code, as it was while stopped.

    `stacks` are its own stack and stacks that signals interrupted. It is empty if they are too
    large to copy.
    """

    tid: int
    registers: arch.Registers
    stacks: list[Stack]


class Inside:
    """Finds the threads of a visited process that are in the addresses [low, high).

    Make and ask it while the process runs. `look` is called while all its threads are stopped.
    Threads that begin to run the code afterwards are not found.
    """

    __slots__ = ("_frames", "_high", "_low", "_places", "_suspects", "_visit")

    def __init__(self, visit: Visit, low: int, high: int) -> None:
        """Examine the images of the process. Raises OSError."""
        self._visit = visit
        self._low, self._high = low, high
        self._places = CodePlaces(visit)
        self._suspects: list[Suspect] = []
        self._frames = Frames(visit, self._places)

    # ---- while all threads are stopped ----

    def look(self) -> None:
        """Copy what the stopped threads have of the code's addresses. Raises OSError."""
        places = self._places
        places.look()
        self._frames = Frames(self._visit, places)
        self._suspects = []
        kept, left = 0, _MOST_READ
        for tid, registers in self._visit.threads.registers().items():
            stacks = self._stacks(registers) if left > 0 else []
            size = sum(len(stack.data) for stack in stacks)
            left -= size
            if left > 0 and not self._mentions(registers, stacks):
                continue
            kept += size
            self._suspects.append(Suspect(tid, registers, stacks if kept <= _MOST_KEPT else []))

    def _stacks(self, registers: arch.Registers) -> list[Stack]:
        stacks: list[Stack] = []
        todo = [registers.sp]
        while todo and len(stacks) < _MOST_STACKS:
            sp = todo.pop()
            if any(sp - stack.start in range(len(stack.data)) for stack in stacks):
                continue
            stack = self._places.stack(sp)
            stacks.append(stack)
            todo += self._places.handlers(stack, sp)
        return stacks

    def _mentions(self, registers: arch.Registers, stacks: list[Stack]) -> bool:
        ranges = [(self._low, self._high), *self._ways_in()]
        return any(
            any(low <= word < high for word in registers.words())
            or any(next(words_between(stack.data, low, high), None) for stack in stacks)
            for low, high in ranges
        )

    def _ways_in(self) -> list[tuple[int, int]]:
        """Return the agents' code ranges from which calls go on to a slot's original function."""
        return [
            (agent.base + low, agent.base + high)
            for agent in self._visit.agents
            for low, high in (
                (0, layout.BLOB_SITES),
                (layout.BLOB_COUNTERS, layout.BLOB_ENTRIES + layout.BLOB_DISTANCE),
            )
        ]

    # ---- while all threads run ----

    def threads(self) -> list[int]:
        """Return the ids of the threads that were inside when `look` was called."""
        left = _MOST_ALTOGETHER
        inside = []
        for suspect in self._suspects:
            is_inside, count = self._is_inside(suspect, left)
            left -= count
            if is_inside:
                inside.append(suspect.tid)
        return inside

    def _is_inside(self, suspect: Suspect, most: int) -> tuple[bool, int]:
        """Return whether one thread was inside, and how many frames were walked for that."""
        stacks = suspect.stacks

        def read(addr: int) -> int | None:
            for stack in stacks:
                at = addr - stack.start
                if 0 <= at <= len(stack.data) - _WORD:
                    return int.from_bytes(stack.data[at : at + _WORD], "little")
            return self._word_of_agent(addr)

        walk = self._frames.walk(suspect.registers.columns(), read, min(most, MOST_FRAMES))
        count = len(walk.places)
        ranges = [(self._low, self._high), *self._ways_in()]
        if any(low <= place < high for low, high in ranges for place in walk.places):
            return True, count
        if walk.end == EARLY:
            # Only registers and words of the code itself count: words of the agent are on many
            # stacks.
            return not stacks or self._has_word(suspect, 0), count
        if walk.end == ZERO:  # code without tables may have led to a word that is 0
            return self._has_word(suspect, walk.sp), count
        if count > _BEGINNING:
            return False, count
        # A thread that has just begun: the C library's descriptor of it has the function that it
        # will run.
        pointer = suspect.registers.thread_pointer
        words = (read(at) or 0 for at in range(pointer, pointer + _DESCRIPTOR, _WORD))
        return any(self._low <= word < self._high for word in words), count

    def _has_word(self, suspect: Suspect, above: int) -> bool:
        """Return whether a stack has a word of the code at or above the address `above`.

        If `above` is 0, also return True if a register has such a word.
        """
        low, high = self._low, self._high
        if not above and any(low <= word < high for word in suspect.registers.words()):
            return True
        return any(
            stack.start + at >= above
            for stack in suspect.stacks
            for at, _ in words_between(stack.data, low, high)
        )

    def _word_of_agent(self, addr: int) -> int | None:
        """Read a return trampoline's data word for its caller, which does not change."""
        for agent in self._visit.agents:
            if 0 <= addr - agent.base < layout.BLOB_SIZE:
                data = self._visit.memory.read(addr, _WORD)
                return int.from_bytes(data, "little") if len(data) == _WORD else None
        return None


def who_stays(visit: Visit, low: int, high: int, seconds: float) -> int:
    """Return a thread that is in the addresses [low, high), 0 if there is none.

    Threads have `seconds` to leave. The process is stopped only during each look. Raises what
    `Visit.stop` raises, and OSError.
    """
    inside = Inside(visit, low, high)
    end = time.monotonic() + seconds
    pause = _PAUSE
    while True:
        visit.mind_filters()
        visit.tries = 0
        visit.stop()
        try:
            inside.look()
        finally:
            visit.threads.resume()
        threads = inside.threads()
        if not threads or time.monotonic() > end:
            return threads[0] if threads else 0
        time.sleep(pause)
        pause *= 2  # each look disturbs the process
