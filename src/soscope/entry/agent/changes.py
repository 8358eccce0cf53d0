# SPDX-License-Identifier: Apache-2.0
"""Change code and method tables that threads are using, on request of an agent."""

from __future__ import annotations

from array import array

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.unwind import code_ranges
from soscope.entry.agent.resident import Resident, words_between
from soscope.entry.agent.visit import Visit
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory
from soscope.errors import FormatError
from soscope.proc import maps
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Write the instruction changes that an agent requests in a running process.
#
# If one instruction replaces several, no thread may be between these, nor return there from a
# signal handler. A thread that is there is moved behind them, because they have no effect. If a
# handler returns there, the change waits for another stop. No child of vfork(2) runs in this memory
# meanwhile: its parent's thread stops only after the child has executed a program or ended.

_WORD = 8  # bytes
_FIELDS = layout.CHANGE.size // _WORD
_MOST_STACK = 64 << 20  # bytes of a stack that are searched

Change = tuple[int, int, bytes, bytes, bool]  # index in the journal, addr, before, after, split


class CodeChanges:
    """The code changes that an agent's journal requests.

    `waiting` are changes that have to wait because of a thread. `refused` counts changes that the
    kernel has not allowed.
    """

    __slots__ = ("_agent", "_last", "_seen", "_visit", "refused", "waiting")

    def __init__(self, visit: Visit, agent: Resident) -> None:
        self._visit = visit
        self._agent = agent
        self._seen = 0
        self._last = b""  # the last entry that was read
        self.waiting: list[Change] = []
        self.refused = 0

    def apply(self) -> None:
        """Write the changes that are possible, while all threads are stopped."""
        new = self._new()
        changes = self.waiting + new
        held = self._held([change for change in changes if change[4]])
        self.waiting = [change for change in changes if change[1] in held]
        self._write(change for change in changes if change[1] not in held)

    def give_up(self) -> int:
        """Give up the changes that still wait. Return their number."""
        count = len(self.waiting)
        for place, *_ in self.waiting:
            at = self._agent.fields["changes"] + place * layout.CHANGE.size
            self._visit.memory.write(at, bytes(_WORD))
        self.waiting = []
        return count

    def _new(self) -> list[Change]:
        """Return the changes that were added to the journal since the last call.

        If images have been unloaded, their entries may have been reused. So the whole journal is
        read again then.
        """
        self._agent.look()
        count = min(self._agent.fields["change_count"], layout.MAX_CHANGES)
        if count < self._seen or self._entries(self._seen - 1, self._seen) != self._last:
            self._seen = 0
            self.waiting = []
        data = self._entries(self._seen, count)
        words = array("Q", data)
        changes = []
        for place, (addr, before, after, last) in enumerate(
            zip(*(words[field::_FIELDS] for field in range(_FIELDS)), strict=True), self._seen
        ):
            if not addr or not last >> 8 & layout.CHANGE_CODE:
                continue
            size = last & 0xFF
            old, new = (word.to_bytes(_WORD, "little")[:size] for word in (before, after))
            changes.append((place, addr, old, new, bool(last >> 8 & layout.CHANGE_SPLIT)))
        self._seen = count
        self._last = data[-layout.CHANGE.size :] or self._last
        return changes

    def _entries(self, first: int, end: int) -> bytes:
        """Return the journal's entries [first, end) as bytes. There are none before 0."""
        first = max(first, 0)
        start = self._agent.fields["changes"] + first * layout.CHANGE.size
        data = self._visit.memory.read(start, (end - first) * layout.CHANGE.size)
        return data[: len(data) // layout.CHANGE.size * layout.CHANGE.size]

    def _write(self, changes: Iterable[Change]) -> None:
        """Write changes, a page at a time, if the old bytes are in place."""
        memory = self._visit.memory
        pages: dict[int, list[Change]] = {}
        for change in changes:
            pages.setdefault(change[1] // layout.PAGE, []).append(change)
        for page in pages.values():
            start = min(change[1] for change in page)
            end = max(change[1] + len(change[2]) for change in page)
            content = memory.read(start, end - start)
            data = bytearray(content)
            for _, addr, before, after, _ in page:
                at = addr - start
                if data[at : at + len(before)] == before:
                    data[at : at + len(after)] = after
            try:
                if data != content:
                    memory.write(start, bytes(data))
            except OSError:
                self.refused += len(page)

    # ---- positions of threads ----

    def _held(self, changes: list[Change]) -> set[int]:
        """Return the addresses of changes to which a handler returns. Move threads from there."""
        if not changes:
            return set()
        inside = {
            place: (addr, len(before))
            for _, addr, before, _, _ in changes
            for place in range(addr + 1, addr + len(before))
        }
        low, high = min(inside), max(inside) + 1
        held: set[int] = set()
        memory = self._visit.memory
        mappings = maps.read(next(iter(self._visit.threads.stopped), self._visit.pid))
        for tid, registers in self._visit.threads.registers().items():
            for stack in used_stacks(memory, mappings, registers.sp - arch.RED_ZONE):
                held |= {inside[w][0] for _, w in words_between(stack, low, high) if w in inside}
            if registers.pc in inside:
                addr, size = inside[registers.pc]
                registers.pc = addr + size
                arch.set_registers(tid, registers)
        return held


def used_stacks(memory: RemoteMemory, mappings: list[maps.Mapping], sp: int) -> Iterator[bytes]:
    """Yield the used part of a stack, and of the stacks that its signal handlers interrupted."""
    waiting, seen = [sp], set[int]()
    while waiting:
        start = waiting.pop() & -_WORD
        end = next((each.end for each in mappings if each.start <= start < each.end), start)
        if end == start or end in seen:
            continue
        seen.add(end)
        data = memory.read(start, min(end - start, _MOST_STACK))
        yield data
        waiting += arch.interrupted_stacks(data)


# Wait until threads have left functions that an agent replaces for Python's method tables.
#
# A thread in one of these functions reads a method table behind the agent's back, so it must have
# left before a table is hooked. No thread enters them any more. So each thread has to be seen once
# where it is in none of them. A thread may be in them
#
# - between the first and last instruction of one, or of a function that one calls or jumps to;
# - if it is about to call one, with its address in a register;
# - in functions called from there, with a return address to one near the top of the stack;
# - if one of these holds for code that its signal handlers have interrupted.
#
# These functions make no system calls. So a thread that waits in a system call is not in them,
# whatever earlier calls have left on its stack.

_TRIES = 100  # stops
_SIZE = 256  # bytes of a function without a table entry
_FRAMES = 1024  # bytes of stack that functions called from them may use
_BINDING = 8192  # the same while the loader binds a symbol for them

Range = tuple[int, int]


class MethodChanges:
    """The wait of an agent before it hooks method tables.

    `are_left` is set if the wait was in vain, so that no table is hooked.
    """

    __slots__ = ("_agent", "_out", "_ranges", "_tries", "_visit", "are_left")

    def __init__(self, visit: Visit, agent: Resident) -> None:
        self._visit = visit
        self._agent = agent
        self._ranges: list[Range] = []
        self._out: set[int] = set()  # threads seen outside
        self._tries = _TRIES
        self.are_left = False

    def prepare(self) -> None:
        """Find the code of the functions. This takes a while, during which the process may run."""
        self._agent.look()
        fields = self._agent.fields
        if not self._ranges and fields["method_state"] == layout.METHODS_WAIT:
            functions = {fields["method_hash"], fields["method_compare"]}
            self._ranges = _ranges(self._visit, functions)

    def look(self) -> None:
        """Check the positions of all stopped threads, and tell the agent once all have left."""
        if not self._ranges or self.are_left:
            return
        if self._agent.fields["method_state"] != layout.METHODS_WAIT:
            return
        mappings = maps.read(next(iter(self._visit.threads.stopped), self._visit.pid))
        threads = self._visit.threads.registers()
        for tid, registers in threads.items():
            if tid not in self._out and not self._holds(mappings, registers):
                self._out.add(tid)
        self._tries -= 1
        if threads.keys() <= self._out:
            self._tell(layout.METHODS_FREE)
        elif not self._tries:
            self.are_left = True
            self._tell(layout.METHODS_LEFT)

    def _tell(self, state: int) -> None:
        at = self._agent.base + layout.BLOB_DATA + layout.INSIDE.offset("method_state")
        self._visit.memory.write(at, state.to_bytes(_WORD, "little"))

    def _holds(self, mappings: list[maps.Mapping], registers: arch.Registers) -> bool:
        """Return whether a thread may be in one of the functions, or in a handler above one."""
        if self._is_inside(registers.pc, registers.sp, registers.words()):
            return True
        stacks = used_stacks(self._visit.memory, mappings, registers.sp - arch.RED_ZONE)
        return any(self._is_inside(*each) for stack in stacks for each in arch.interrupted(stack))

    def _is_inside(self, pc: int, sp: int, registers: Iterable[int]) -> bool:
        memory = self._visit.memory
        if self._is_known(pc) or any(agent.holds(pc) for agent in self._visit.agents):
            return True
        if self._agent.holds(pc):
            return True
        binds = any(start <= pc < end for start, end in self._visit.loader_code)
        if not binds and arch.is_behind_syscall(memory.read(pc - _WORD, _WORD)):
            return False
        data = memory.read(sp & -_WORD, _BINDING if binds else _FRAMES)
        stack = memoryview(data)[: len(data) & -_WORD].cast("Q")
        return any(map(self._is_known, registers)) or any(map(self._leads_there, stack))

    def _is_known(self, addr: int) -> bool:
        return any(start <= addr < end for start, end in self._ranges)

    def _leads_there(self, word: int) -> bool:
        if self._agent.is_return(word):
            word = self._agent.return_of(word)
        return self._is_known(word)


def _ranges(visit: Visit, functions: Iterable[int]) -> list[Range]:
    """Return the code ranges of functions, and of functions that they call or jump to directly."""
    known: dict[int, Range] = {}
    for function in functions:
        pieces = _pieces(visit, function)
        own = _piece_around(pieces, function)
        known[own[0]] = own
        code = visit.memory.read(own[0], own[1] - own[0])
        for target in arch.branch_targets(code, own[0]):
            if _is_code(visit, target):
                piece = _piece_around(pieces, target)
                known[piece[0]] = piece
    return list(known.values())


def _is_code(visit: Visit, addr: int) -> bool:
    return any(each.start <= addr < each.end and each.flags[2] == "x" for each in visit.mappings)


def _piece_around(pieces: list[Range], addr: int) -> Range:
    return next(
        ((start, end) for start, end in pieces if start <= addr < end), (addr, addr + _SIZE)
    )


def _pieces(visit: Visit, function: int) -> list[Range]:
    """Return all code ranges of a function's image that its unwind tables list."""
    path = next((each.path for each in visit.mappings if each.start <= function < each.end), "")
    start = min(each.start for each in visit.mappings if each.path == path)
    try:
        image = ElfImage.from_memory(visit.memory, start)
        return [(image.locate(at), image.locate(at) + size) for at, size in code_ranges(image)]
    except FormatError:
        return []  # a fixed size is used then
