# SPDX-License-Identifier: Apache-2.0
"""Threads in the functions that an agent has replaced in order to hook Python's method tables.

Whoever is in one of these reads a table behind the agent's back, and must have left before one
is hooked. No thread enters them any more; so each is to be seen once where it is in none of them:

- between their first and last instruction, or those of what they call or jump to;
- about to call one, with its address in a register;
- in what they call further on, with a return address to one near the top of the stack;
- the same of what its signal handlers have interrupted.

They make no system calls. So a thread that waits for one is not in them, whatever earlier
calls have left on its stack.
"""

from __future__ import annotations

from collections.abc import Iterable

from soscope.binfmt.elf.ehframe import code_ranges
from soscope.binfmt.elf.image import ElfImage
from soscope.entry.agent.codechanges import used_stacks
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.visit import Visit
from soscope.entry.isa import arch
from soscope.errors import FormatError
from soscope.proc import maps
from soscope.wire import layout

_WORD = 8  # bytes
_TRIES = 100  # stops
_SIZE = 256  # bytes of a function of which no table tells
_FRAMES = 1024  # bytes of stack that what they call may have in use
_BINDING = 8192  # the same where the loader binds a symbol for them

Range = tuple[int, int]


class MethodChanges:
    """What an agent waits for before it hooks method tables.

    `are_left` says that it was in vain, and that no table is hooked.
    """

    __slots__ = ("_agent", "_out", "_ranges", "_tries", "_visit", "are_left")

    def __init__(self, visit: Visit, agent: Resident) -> None:
        self._visit = visit
        self._agent = agent
        self._ranges: list[Range] = []
        self._out: set[int] = set()  # threads that were seen elsewhere
        self._tries = _TRIES
        self.are_left = False

    def prepare(self) -> None:
        """Find out which code it is about. This takes a while: the process may run."""
        self._agent.look()
        fields = self._agent.fields
        if not self._ranges and fields["method_state"] == layout.METHODS_WAIT:
            functions = {fields["method_hash"], fields["method_compare"]}
            self._ranges = _ranges(self._visit, functions)

    def look(self) -> None:
        """See where threads are, which are all stopped, and tell the agent once all have left."""
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
    """Return where functions have their code, and what they call or jump to directly has its."""
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
    """Return all pieces of code of a function's image, as far as its unwind tables tell."""
    path = next((each.path for each in visit.mappings if each.start <= function < each.end), "")
    start = min(each.start for each in visit.mappings if each.path == path)
    try:
        image = ElfImage.from_memory(visit.memory, start)
        return [(image.locate(at), image.locate(at) + size) for at, size in code_ranges(image)]
    except FormatError:
        return []  # then a fixed number of bytes counts as the function's
