# SPDX-License-Identifier: Apache-2.0
"""Who is inside a piece of code: at one of its instructions, or to return to one.

Most threads have no word at all that leads there, which is seen at once. The stacks of the
others are kept, and walked when the process runs again. A word counts that is the return address
of a frame; what is left over of earlier calls does not. Where a walk does not come to its end,
each word does.
"""

from __future__ import annotations

import time

from soscope.entry.agent.unwinding import words_between
from soscope.entry.agent.visit import Visit
from soscope.entry.guest.frames import EARLY, MOST_FRAMES, ZERO, Frames
from soscope.entry.guest.places import CodePlaces, Stack
from soscope.entry.isa import arch
from soscope.wire import layout

_MOST_STACKS = 4  # of a thread: one for each signal handler with a stack of its own
_MOST_KEPT = 64 << 20  # bytes of stacks; of further ones each word counts
_MOST_READ = 1 << 30  # bytes while the process stands still; others are suspects unseen
_MOST_ALTOGETHER = 500_000  # frames of all threads: half a second
_BEGINNING = 4  # frames
_DESCRIPTOR = 2304  # bytes of glibc's `struct pthread`
_WORD = 8
_PAUSE = 0.002  # seconds between two looks, at first


class Suspect:
    """A thread that has words of the code, as it was while it stood still.

    `stacks` are its own and those that signals interrupted, none where they are too large to keep.
    """

    __slots__ = ("registers", "stacks", "tid")

    def __init__(self, tid: int, registers: arch.Registers, stacks: list[Stack]) -> None:
        self.tid = tid
        self.registers = registers
        self.stacks = stacks


class Inside:
    """Says which threads of a visited process are in the addresses from `low` to below `high`.

    To be made, and asked, while the process runs; `look` is for when all its threads are
    stopped. What begins to run the code afterwards is not seen.
    """

    __slots__ = ("_frames", "_high", "_low", "_places", "_suspects", "_visit")

    def __init__(self, visit: Visit, low: int, high: int) -> None:
        """Look at the images of the process. Raises OSError."""
        self._visit = visit
        self._low, self._high = low, high
        self._places = CodePlaces(visit)
        self._suspects: list[Suspect] = []
        self._frames = Frames(visit, self._places)

    # ---- while all threads are stopped ----

    def look(self) -> None:
        """Keep what the stopped threads have of the code. Raises OSError."""
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
        """Return the agents' code from which calls go on to what a slot held before."""
        return [
            (agent.base + low, agent.base + high)
            for agent in self._visit.agents
            for low, high in (
                (0, layout.BLOB_SITES),
                (layout.BLOB_COUNTERS, layout.BLOB_ENTRIES + layout.BLOB_DISTANCE),
            )
        ]

    # ---- while they run ----

    def threads(self) -> list[int]:
        """Return the ids of those that were inside when `look` was called."""
        left = _MOST_ALTOGETHER
        inside = []
        for suspect in self._suspects:
            is_inside, count = self._is_inside(suspect, left)
            left -= count
            if is_inside:
                inside.append(suspect.tid)
        return inside

    def _is_inside(self, suspect: Suspect, most: int) -> tuple[bool, int]:
        """Say so of one, and how many frames had to be walked for that."""
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
            # registers and words of the code itself: the agent's are on many a stack
            return not stacks or self._has_word(suspect, 0), count
        if walk.end == ZERO:  # code without tables may have led astray, to a word that is 0
            return self._has_word(suspect, walk.sp), count
        if count > _BEGINNING:
            return False, count
        # one that has just begun: the C library's descriptor of it says what it will run
        pointer = suspect.registers.thread_pointer
        words = (read(at) or 0 for at in range(pointer, pointer + _DESCRIPTOR, _WORD))
        return any(self._low <= word < self._high for word in words), count

    def _has_word(self, suspect: Suspect, above: int) -> bool:
        """Return whether a stack, from an address up, mentions the code; 0: or a register does."""
        low, high = self._low, self._high
        if not above and any(low <= word < high for word in suspect.registers.words()):
            return True
        return any(
            stack.start + at >= above
            for stack in suspect.stacks
            for at, _ in words_between(stack.data, low, high)
        )

    def _word_of_agent(self, addr: int) -> int | None:
        """Read where return trampolines find their callers: it stays the same."""
        for agent in self._visit.agents:
            if 0 <= addr - agent.base < layout.BLOB_SIZE:
                data = self._visit.memory.read(addr, _WORD)
                return int.from_bytes(data, "little") if len(data) == _WORD else None
        return None


def who_stays(visit: Visit, low: int, high: int, seconds: float) -> int:
    """Return a thread that is in the addresses from `low` to below `high`, 0 if there is none.

    Threads have so many seconds to leave. The process stands still for each look alone. Raises
    what `Visit.stop` raises, and OSError.
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
