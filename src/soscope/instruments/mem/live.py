# SPDX-License-Identifier: Apache-2.0
"""Look at a running process again and again: which objects and native blocks grow."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager

from soscope.control.blocks import Blocks
from soscope.control.interpreter import VisitedInterpreter, visit
from soscope.control.outcome import LOOK, Price, look_lines
from soscope.control.settings import SessionSettings
from soscope.frames.names import FrameNames
from soscope.instruments.mem.diff import BLOCKS, OBJECTS, DiffRow, MemSums, Place, changes, sums_of
from soscope.instruments.mem.diff import place_of as block_place_of
from soscope.instruments.mem.model import COMPLETE, MemProcess, MemReport, RssParts
from soscope.instruments.mem.objects import ObjectsInstrument, ObjectsPlace, refusal, survivors_of
from soscope.instruments.mem.report import add_survivors, report_of
from soscope.instruments.mem.run import Divide
from soscope.instruments.mem.survivors import Survivors
from soscope.live.process import Process
from soscope.model.call import StackFrame
from soscope.model.record import Record, fresh
from soscope.proc import status
from soscope.proc.memory import ProcessMemory
from soscope.proc.status import Refused, read_status
from soscope.recording.reader import RecordingFile
from soscope.wire import headers as layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soscope.control.shield import Plain
    from soscope.wire.block import ControlBlock


# Reads the objects of a running process at one moment.


def attach(pid: int) -> tuple[bool, list[str]]:
    """Let process `pid` count objects from now on, without soscope.

    Return whether it did so before, and notes about the wait. Raises NoSuchProcess, NotPermitted,
    AgentError and AttachError; then the process is as it was.
    """

    def work(interpreter: VisitedInterpreter, place: ObjectsPlace) -> Plain:
        was_counting = place.state == layout.OBJECTS_COUNTING
        _begin(interpreter)
        interpreter.stays = True
        return (was_counting,)

    return _told(visit_objects(pid, work))


def detach(pid: int) -> tuple[bool, list[str]]:
    """Let process `pid` stop counting. Return whether it counted, and notes.

    Raises as `attach`.
    """

    def work(interpreter: VisitedInterpreter, place: ObjectsPlace) -> Plain:
        was_counting = place.state == layout.OBJECTS_COUNTING
        interpreter.stays = not was_counting  # an idle agent has nothing to undo
        return (was_counting,)

    return _told(visit_objects(pid, work))


def _told(visited: tuple[Plain, Price]) -> tuple[bool, list[str]]:
    (was_counting,), cost = visited
    return bool(was_counting), look_lines(cost)


def snapshot(
    pid: int, *, collect: bool = False, qualname: bool = False, divide: Divide | None = None
) -> MemReport:
    """Return the objects of process `pid`. Objects that are older than `attach` have no line.

    With `collect`, garbage is collected before. With `qualname`, types have qualified names.
    `divide` finds the parts of the resident memory when the process runs again. Raises as
    `attach`.
    """
    command = status.command_words(pid)

    def work(interpreter: VisitedInterpreter, place: ObjectsPlace) -> Plain:
        interpreter.stays = place.state == layout.OBJECTS_COUNTING
        place = _begin(interpreter)
        if collect:
            interpreter.order(layout.OBJECTS_GARBAGE)
        memory = ProcessMemory(pid)
        try:
            return interpreter.stopped(lambda: survivors_of(memory, place).plain())
        finally:
            memory.close()

    said, cost = visit_objects(pid, work)
    survivors = Survivors.of_plain(said)
    report = MemReport(command, pid)
    report.objects_mode, report.state, report.uses_qualname = "exact", COMPLETE, qualname
    add_survivors(report, {pid: survivors.to_json(pid, None)})
    report.cost = cost
    report.notes += [*survivors.notes, *look_lines(cost)]
    parts = None if divide is None else divide(pid, survivors.blocks)
    report.rss = None if parts is None else RssParts(*parts)
    process = MemProcess(pid, None, command)
    process.state = COMPLETE
    report.processes.append(process)
    return report


def _begin(interpreter: VisitedInterpreter) -> ObjectsPlace:
    interpreter.order(layout.OBJECTS_BEGIN)
    place = place_of(interpreter.block)
    if place.state != layout.OBJECTS_COUNTING:
        raise Refused(refusal(place))
    return place


def visit_objects(
    pid: int, work: Callable[[VisitedInterpreter, ObjectsPlace], Plain]
) -> tuple[Plain, Price]:
    """Return the result of `work` on an interpreter and its agent's data, and the cost.

    Raises as `attach`.
    """
    blocks = Blocks(SessionSettings([], pids=[pid]), [ObjectsInstrument(is_visit=True)])

    def whole(interpreter: VisitedInterpreter) -> Plain:
        said = work(interpreter, place_of(interpreter.block))
        return said, interpreter.stood_ns

    said, stood_ns = visit(pid, blocks.make, lambda block: place_of(block).done, whole)
    return said, Price(0, {LOOK: stood_ns})


def place_of(block: ControlBlock) -> ObjectsPlace:
    """Return the data of a visited process's agent. Raises Refused if there are none."""
    places = ObjectsPlace.all(block)
    if not places:
        raise Refused("its agent has no data about objects")
    return places[0]


# Growth in a running process, by file, line and type, by repeated looks at its objects.

WINDOW = 60.0  # seconds that a rate covers
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MINUTE = 60.0


class Growth(Record):
    """The changes in process `pid` within `seconds`. The `rows` are sorted by growth.

    `what` is OBJECTS or BLOCKS. `live` and `live_bytes` are count and bytes of all that is alive
    at the end. `notes` tell what is not known. For rows of blocks, `frames` has for each place
    (file, line, type) the stack that has grown most there, with the innermost frame first. For
    objects, `grown` is by how many bytes all objects together have grown, and `resident` by how
    many bytes the anonymous resident memory of the process has. `goes_on` means that the process
    continues to count afterwards.
    """

    pid: int
    seconds: float
    rows: list[DiffRow]
    live: int
    live_bytes: int
    what: str = OBJECTS
    notes: list[str] = fresh(list)
    frames: dict[Place, tuple[StackFrame, ...]] = fresh(dict)
    grown: int = 0
    resident: int = 0
    goes_on: bool = True

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
        growth = Growth(self.pid, now - before, rows, *sums.total)
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


# Growth of native blocks in a running process, read from a recording with sums meanwhile.
#
# The recording has just begun: its sums begin with 0 when all calls are hooked.

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
        a, b = MemSums(0), MemSums(0)
        fastest: dict[Place, tuple[tuple[int, int], tuple[StackFrame, ...]]] = {}
        for stack in before.keys() | after.keys():
            place = place_in(main, *stack)
            old, new = before.get(stack, _NOTHING), after.get(stack, _NOTHING)
            a.add(place, *old)
            b.add(place, *new)
            grown = new[0] - old[0], new[1] - old[1]
            if place not in fastest or grown > fastest[place][0]:
                fastest[place] = grown, stack[1]
        rows: list[DiffRow] = [row for row in changes(a, b) if row.growth != _NOTHING]
        growth = Growth(self._pid, (now - begun) / _NS, rows, *b.total, BLOCKS)
        growth.frames = {place: frames for place, (_, frames) in fastest.items()}
        growth.notes = report.notes
        return growth


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
    file, line, _ = block_place_of(api, frames)
    if line or not frames:
        return file, line, api
    frame = next((frame for frame in frames if frame.image == main), frames[0])
    if frame.image is None:
        return None, 0, api
    where = frame.image if frame.symbol is None else f"{frame.image}!{frame.symbol}"
    return where if frame.offset is None else f"{where}+{frame.offset:#x}", 0, api
