# SPDX-License-Identifier: Apache-2.0
"""Growth of native blocks in a running process, read from a recording with sums meanwhile.

The recording has just begun: its sums begin with 0 when all calls are hooked.
"""

from __future__ import annotations

from soscope.frames.names import FrameNames
from soscope.instruments.mem.diff import BLOCKS, DiffRow, MemSums, Place, changes, place_of
from soscope.instruments.mem.live import WINDOW, Growth
from soscope.instruments.mem.model import MemReport
from soscope.instruments.mem.report import report_of
from soscope.live.process import Process
from soscope.model.call import StackFrame
from soscope.recording.reader import RecordingFile

_NS = 1_000_000_000
_NOTHING = 0, 0
# Functions that only an interpreter has. The agent recognises one by the same functions.
_INTERPRETERS = (("Py_IsInitialized", "PyList_New"), ("rb_tracepoint_new", "ruby_native_thread_p"))

_Stack = tuple[str, tuple[StackFrame, ...]]  # the called function, and the stack of its caller
_Sums = dict[_Stack, tuple[int, int]]  # count, bytes


def has_interpreter(pid: int) -> bool:
    """Return whether a process contains Python or Ruby. Raises NoSuchProcess, NotPermitted."""
    with Process(pid) as process:
        return any(
            all(image.symbols.lookup(name) is not None for name in names)
            for image in process.images
            for names in _INTERPRETERS
        )


class LiveBlocks:
    """The blocks of process `pid`, watched by a recording of it with sums at `path`.

    A rate covers the last minute, or the time since the beginning of the recording.
    """

    def __init__(self, pid: int, path: str) -> None:
        self._pid = pid
        self._path = path
        self._names = FrameNames()
        self._looks: list[tuple[int, _Sums]] = []  # (CLOCK_REALTIME ns, sums)

    def look(self) -> Growth | None:
        """Read the recording and return the changes, None if it has no sums yet.

        Raises RecordingError.
        """
        with RecordingFile.open(self._path) as recording:
            if recording.sums is None:
                return None
            report = report_of(recording, names=self._names)
            main = recording.programs[0].path.rpartition("/")[2]
        if report.span is None:
            return None
        begun, now = report.span
        looks = self._looks or [(begun, {})]
        if now <= looks[-1][0]:
            return None
        while len(looks) > 1 and looks[1][0] <= now - WINDOW * _NS:
            del looks[0]
        self._looks = [*looks, (now, _sums(report))]
        return self._growth(report, main)

    def _growth(self, report: MemReport, main: str) -> Growth:
        (begun, before), (now, after) = self._looks[0], self._looks[-1]
        a, b, frames = MemSums(0), MemSums(0), _Fastest()
        for stack in before.keys() | after.keys():
            place = place_in(main, *stack)
            old, new = before.get(stack, _NOTHING), after.get(stack, _NOTHING)
            a.add(place, *old)
            b.add(place, *new)
            frames.take(place, stack[1], (new[0] - old[0], new[1] - old[1]))
        rows: list[DiffRow] = [row for row in changes(a, b) if row.growth != _NOTHING]
        growth = Growth(self._pid, (now - begun) / _NS, rows, b.total, BLOCKS)
        growth.frames = frames.by_place
        growth.notes = report.notes
        return growth


class _Fastest:
    """For each place, the stack that has grown most."""

    def __init__(self) -> None:
        self.by_place: dict[Place, tuple[StackFrame, ...]] = {}
        self._growth: dict[Place, tuple[int, int]] = {}

    def take(self, place: Place, frames: tuple[StackFrame, ...], growth: tuple[int, int]) -> None:
        if place not in self._growth or growth > self._growth[place]:
            self._growth[place] = growth
            self.by_place[place] = frames


def _sums(report: MemReport) -> _Sums:
    """Return count and bytes of what is alive, by stack."""
    sums: _Sums = {}
    for row in report.native:
        before = sums.get((row.api, row.frames), _NOTHING)
        sums[row.api, row.frames] = before[0] + row.count, before[1] + row.bytes
    return sums


def place_in(main: str, api: str, frames: tuple[StackFrame, ...]) -> Place:
    """Return the place where a block was made: the innermost line that is known.

    If no line is known, return an instruction: the innermost one in the program, whose image is
    `main`, or else the caller of `api`.
    """
    file, line, _ = place_of(api, frames)
    if line or not frames:
        return file, line, api
    frame = next((frame for frame in frames if frame.image == main), frames[0])
    if frame.image is None:
        return None, 0, api
    where = frame.image if frame.symbol is None else f"{frame.image}!{frame.symbol}"
    return where if frame.offset is None else f"{where}+{frame.offset:#x}", 0, api
