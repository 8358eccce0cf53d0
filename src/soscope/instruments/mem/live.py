# SPDX-License-Identifier: Apache-2.0
"""Growth in a running process, by file, line and type, by repeated looks at its objects."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from soscope.instruments.mem.diff import OBJECTS, DiffRow, MemSums, changes, sums_of
from soscope.instruments.mem.snapshot import attach, detach, snapshot
from soscope.proc.status import read_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.mem.diff import Place
    from soscope.model.call import StackFrame

WINDOW = 60.0  # seconds that a rate covers
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MINUTE = 60.0


class Growth:
    """The changes in process `pid` within `seconds`. The `rows` are sorted by growth.

    `what` is OBJECTS or BLOCKS. `live` and `live_bytes` are count and bytes of all that is alive
    at the end. `notes` tell what is not known. For rows of blocks, `frames` has for each place
    (file, line, type) the stack that has grown most there, with the innermost frame first. For
    objects, `grown` is by how many bytes all objects together have grown, and `resident` by how
    many bytes the anonymous resident memory of the process has. `goes_on` means that the process
    continues to count afterwards.
    """

    __slots__ = (
        "frames",
        "goes_on",
        "grown",
        "live",
        "live_bytes",
        "notes",
        "pid",
        "resident",
        "rows",
        "seconds",
        "what",
    )

    def __init__(
        self,
        pid: int,
        seconds: float,
        rows: list[DiffRow],
        total: tuple[int, int],
        what: str = OBJECTS,
    ) -> None:
        self.pid = pid
        self.seconds = seconds
        self.rows = rows
        self.live, self.live_bytes = total
        self.what = what
        self.notes: list[str] = []
        self.frames: dict[Place, tuple[StackFrame, ...]] = {}
        self.grown = self.resident = 0
        self.goes_on = True

    def per_minute(self, count: int) -> float:
        """Return how many things a minute `count` things within `seconds` are."""
        return count * _MINUTE / self.seconds


class LiveObjects:
    """The objects of a process that counts them, watched from the first `look` on.

    A rate covers the last minute, or the time since the first look if that is shorter.
    """

    def __init__(self, pid: int, *, collect: bool, qualname: bool, goes_on: bool) -> None:
        """Prepare to watch process `pid`.

        With `collect`, garbage is collected before each look. With `qualname`, types have
        qualified names. With `goes_on`, the process continues to count afterwards.
        """
        self.pid = pid
        self._goes_on = goes_on
        self._collect = collect
        self._qualname = qualname
        self._looks: list[tuple[float, MemSums, int]] = []

    def look(self) -> Growth | None:
        """Look at the objects and return the changes, None at the first look.

        Raises as `snapshot`.
        """
        report = snapshot(self.pid, collect=self._collect, qualname=self._qualname)
        now, sums = time.monotonic(), sums_of(report)
        assert sums is not None
        while len(self._looks) > 1 and self._looks[1][0] <= now - WINDOW:
            del self._looks[0]
        resident = _anonymous(self.pid)
        self._looks.append((now, sums, resident))
        before, first, resident_first = self._looks[0]
        if first is sums:
            return None
        rows = [row for row in changes(first, sums) if row.growth != (0, 0)]
        growth = Growth(self.pid, now - before, rows, sums.total)
        growth.notes = report.notes
        growth.grown = sums.total[1] - first.total[1]
        growth.resident = resident - resident_first
        growth.goes_on = self._goes_on
        return growth


def _anonymous(pid: int) -> int:
    """Return the resident anonymous bytes of a process, 0 if they are not known."""
    said = read_status(pid).get("RssAnon", "")
    return int(said.split()[0]) * 1024 if said else 0


@contextmanager
def counting(pid: int) -> Iterator[bool]:
    """Let a process count its objects meanwhile. Yield whether it did so before.

    If it did, it continues to count afterwards. Raises as `attach`.
    """
    did_before, _ = attach(pid)
    try:
        yield did_before
    finally:
        if not did_before:
            detach(pid)


@contextmanager
def unhurried() -> Iterator[None]:
    """Block signals that end soscope until `waited` asks for them, so that no work is cut short."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def waited(seconds: float) -> bool:
    """Wait. Return False as soon as a signal asks for an end; the signal is consumed."""
    return signal.sigtimedwait(_ENDING, seconds) is None
