# SPDX-License-Identifier: Apache-2.0
"""Wait until threads have left functions that an agent replaces for Python's method tables.

A thread in one of these functions reads a method table behind the agent's back, so it must have
left before a table is hooked. No thread enters them any more. So each thread has to be seen once
where it is in none of them. A thread may be in them

- between their first and last instruction, or those of functions that they call or jump to;
- if it is about to call one, with its address in a register;
- in functions called from there, with a return address to one near the top of the stack;
- if one of these holds for code that its signal handlers have interrupted.

These functions make no system calls. So a thread that waits in a system call is not in them,
whatever earlier calls have left on its stack.
"""

from __future__ import annotations

from collections.abc import Iterable

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.unwind import code_ranges
from soscope.entry.agent.changes import used_stacks
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.visit import Visit
from soscope.entry.isa import arch
from soscope.errors import FormatError
from soscope.proc import maps
from soscope.wire import layout

_WORD = 8  # bytes
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
