# SPDX-License-Identifier: Apache-2.0
"""What grows in a running process, by file, line and type: one look after the other."""

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
    from soscope.model.stackframe import StackFrame

WINDOW = 60.0  # seconds that a rate is about
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MINUTE = 60.0


class Growth:
    """What has changed within `seconds`: `rows`, what has grown most first, of process `pid`.

    `what` are OBJECTS or BLOCKS, `live` and `live_bytes` all of them at the end, `notes` say what
    is not known. `frames` are, for the place of a row of blocks (file, line, type), the frames of
    the stack there that has grown most, the innermost first. Of objects, `grown` is how many more
    bytes all of them have, `resident` how many more the process has in memory that is no file's,
    and `goes_on`: the process counts on afterwards.
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
        """Return what `count` things within the time are in a minute."""
        return count * _MINUTE / self.seconds


class LiveObjects:
    """The objects of a process that counts them, watched from the first `look` on.

    A rate is that of the last minute, or of the time since the first look.
    """

    def __init__(self, pid: int, *, collect: bool, qualname: bool, goes_on: bool) -> None:
        """`collect`: garbage is collected before each look; `qualname`: qualified names.

        `goes_on`: the process counts on when nobody looks any more.
        """
        self.pid = pid
        self._goes_on = goes_on
        self._collect = collect
        self._qualname = qualname
        self._looks: list[tuple[float, MemSums, int]] = []

    def look(self) -> Growth | None:
        """Look, and return what has changed; None at the first look. Raises as `snapshot`."""
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
    """Return how many bytes of a process are resident that are no file's; 0: nobody says."""
    said = read_status(pid).get("RssAnon", "")
    return int(said.split()[0]) * 1024 if said else 0


@contextmanager
def counting(pid: int) -> Iterator[bool]:
    """Have a process count its objects meanwhile; one that did so before, which is given, goes on.

    Raises as `attach`.
    """
    did_before, _ = attach(pid)
    try:
        yield did_before
    finally:
        if not did_before:
            detach(pid)


@contextmanager
def unhurried() -> Iterator[None]:
    """Keep signals that end soscope until `waited` asks for them: nothing is left half done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def waited(seconds: float) -> bool:
    """Wait; return False at once where a signal, which is taken, asks for an end."""
    return signal.sigtimedwait(_ENDING, seconds) is None
