# SPDX-License-Identifier: Apache-2.0
"""Find the threads inside a range of code: at an instruction in it, or returning to one.

Most threads have no word at all that leads there, which is quickly checked. The stacks of the
others are copied, and walked when the process runs again. A word counts if it is the return
address of a frame. A word left over from earlier calls does not count. If a walk does not come to
its end, every word counts.
"""

from __future__ import annotations

import time

from soscope.entry.agent.unwinding import words_between
from soscope.entry.agent.visit import Visit
from soscope.entry.guest.frames import EARLY, MOST_FRAMES, ZERO, Frames
from soscope.entry.guest.places import CodePlaces, Stack
from soscope.entry.isa import arch
from soscope.wire import layout

_MOST_STACKS = 4  # stacks of a thread: one for each handler with its own stack
_MOST_KEPT = 64 << 20  # bytes of stacks; in further ones each word counts
_MOST_READ = 1 << 30  # bytes while the process is stopped; further threads are suspects
_MOST_ALTOGETHER = 500_000  # frames of all threads; they take half a second
_BEGINNING = 4  # frames
_DESCRIPTOR = 2304  # bytes of glibc's `struct pthread`
_WORD = 8
_PAUSE = 0.002  # seconds between the first two looks


class Suspect:
    """A thread with words that lead into the code, as it was while stopped.

    `stacks` are its own stack and those that signals interrupted. It is empty if they are too
    large to copy.
    """

    __slots__ = ("registers", "stacks", "tid")

    def __init__(self, tid: int, registers: arch.Registers, stacks: list[Stack]) -> None:
        self.tid = tid
        self.registers = registers
        self.stacks = stacks


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
