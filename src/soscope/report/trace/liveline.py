# SPDX-License-Identifier: Apache-2.0
"""One line on a terminal with the progress of a trace, while nothing else is printed."""

from __future__ import annotations

import os
import time

from soscope.control.settings import Instrument
from soscope.model.call import printable
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.control.outcome import Outcome, ProgramOutcome
    from soscope.recording.sink import Sink
    from soscope.wire.block import ControlBlock

_STDERR = 2
_EVERY = 1.0  # seconds
_CLEAR = "\r\x1b[K"
_WIDTH = 78  # columns that any terminal has
_LOST = (layout.DROP_FULL, layout.DROP_THREADS, layout.DROP_READER_GONE)


class LiveLine(Instrument):
    """Writes the line about once a second, and removes it at the end.

    `calls` returns how many calls there were, and `size` how many bytes were recorded. Without
    both, programs count, and their counters are read.
    """

    name = "live line"

    def __init__(self, fd: int = _STDERR) -> None:
        self.calls: Callable[[], int] | None = None
        self.size: Callable[[], int] | None = None
        self._fd = fd
        self._blocks: dict[ControlBlock, None] = {}
        self._over = [0, 0]  # calls and losses of ended programs
        self._began = self._said = time.monotonic()
        self._before = 0
        self._is_there = False

    def process(self, pid: int, block: ControlBlock) -> None:
        """Include a process's program."""
        del pid
        self._blocks[block] = None

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Keep the final counts of a program."""
        del program, sink
        self._over[0] += sum(_counted(block).values())
        self._over[1] += _lost(block)
        self._blocks.pop(block, None)

    def move(self) -> bool:
        """Write the line if it is due."""
        now = time.monotonic()
        if now - self._said >= _EVERY:
            self._write(_CLEAR + self._text(now)[:_WIDTH])
            self._is_there = True
            self._said = now
        return False

    def end(self, outcome: Outcome) -> None:
        """Remove the line before notes and tables."""
        del outcome
        self.clear()

    def clear(self) -> None:
        """Remove the line until the next one is due."""
        if self._is_there:
            self._is_there = False
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        import select

        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        if not poll.poll(0):
            return  # Ctrl-S: the target must not wait for that
        try:
            os.write(self._fd, text.encode())
        except OSError:
            pass  # the terminal is gone

    def _text(self, now: float) -> str:
        spent = now - self._said
        words = [f"{now - self._began:.1f} s"]
        if self.size is not None:
            total = self.size()
            words += [f"{total / 1e6:,.1f} MB", f"{(total - self._before) / spent / 1e6:,.1f} MB/s"]
        else:
            most = ""
            if self.calls is not None:
                total = self.calls()
            else:
                total, most = self._count()
            rate = (total - self._before) / spent
            words += [f"{total:,} calls", f"{rate:,.0f}/s", *([most] if most else [])]
        self._before = total
        lost = self._over[1] + sum(map(_lost, self._blocks))
        return printable("  ".join([*words, f"dropped {lost:,}"]))

    def _count(self) -> tuple[int, str]:
        """Return how many calls programs have counted, and the function with most of them."""
        total, most, name = self._over[0], 0, ""
        for block in self._blocks:
            counts = _counted(block)
            total += sum(counts.values())
            slot = max(counts, key=lambda index: counts[index], default=-1)
            if slot >= 0 and counts[slot] > most:
                slots = block.slots(0, [], chosen=[slot])
                most, name = counts[slot], slots[0].symbol if slots else ""
        return total, f"{name} {most / total:.0%}" if name else ""


def _counted(block: ControlBlock) -> dict[int, int]:
    """Return the calls of each slot, {} if the program does not count them."""
    if layout.INSTRUMENT_COUNT in block.instruments:
        return block.counts()
    if layout.INSTRUMENT_STATS in block.instruments:
        return {slot: cell[0] for slot, cell in block.stats().items()}
    return {}


def _lost(block: ControlBlock) -> int:
    return block.dropped_exits + sum(block.dropped[kind] for kind in _LOST)


def may_be_shown(pids: Iterable[int], *, anyway: bool) -> bool:
    """Return whether standard error is a terminal that the target does not use.

    The processes `pids` write to descriptors of their own. A command (no pids) shares ours. With
    `anyway`, the target may use it, too.
    """
    if not os.isatty(_STDERR):
        return False
    if anyway:
        return True
    ours, known = os.fstat(_STDERR).st_rdev, False
    for pid in pids:
        known = True
        for fd in (1, 2):
            try:
                if os.stat(f"/proc/{pid}/fd/{fd}").st_rdev == ours:
                    return False
            except OSError:
                continue  # the process has no such descriptor, or is another user's
    return known
