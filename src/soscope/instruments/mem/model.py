# SPDX-License-Identifier: Apache-2.0
"""The report of a recording of memory: objects and blocks that stay alive, and totals."""

from __future__ import annotations

from soscope.control.outcome import STOPPED_DURATION, ChildPrograms, Price
from soscope.model.call import ProcessExit, ProcessStart, StackFrame
from soscope.model.record import Record, fresh
from soscope.proc.status import signal_name
from soscope.recording.reader import RecordingFile

SCHEMA = "soscope/mem-report/1"  # schema of a report as a JSON document

COMPLETE = "complete"
PARTIAL = "partial"  # the end of each process is in the recording, and calls were not seen
CUT = "cut"
DISK_FULL = "disk-full"
STATES = (COMPLETE, PARTIAL, CUT, DISK_FULL)  # from the best state to the worst

ALIVE = "alive"  # choices of native rows: blocks alive at the end,
PEAK = "peak"  # blocks alive when most bytes were,
TEMPORARY = "temporary"  # or blocks that their thread freed before it made another one


class Survivor(Record):
    """Objects of one type that were made at one line and are alive.

    `file` is None if no frame was running. `error_count` and `error_bytes` are half widths of the
    95 % interval if objects were sampled, else None.
    """

    file: str | None
    line: int
    type: str  # as the document calls it
    qualname: str
    count: int
    bytes: int  # as the document calls it
    pid: int
    error_count: int | None = None
    error_bytes: int | None = None


class NativeRow(Record):
    """Blocks or mappings of one stack. `api` is the function that the program called.

    `thread` is the thread that made all of them, None if several did. `frames` begin with the
    caller of `api`. `error_bytes` is the half width of the 95 % interval of `bytes` if blocks
    were sampled, else None. Mappings are not sampled, so theirs is 0. If blocks were only counted
    by size class, `sizes` are the smallest and largest size of the class, and `frames` is empty;
    else `sizes` is None.
    """

    api: str
    count: int
    bytes: int  # as the document calls it
    thread: int | None
    frames: tuple[StackFrame, ...]
    pid: int
    error_bytes: int | None = None
    sizes: tuple[int, int] | None = None


class NativeTotals(Record, kw_only=True):
    """Total numbers of blocks or mappings, and the bytes that were asked for.

    `peak` and `peak_bytes` are the blocks and bytes alive when most bytes were, at `peak_time_ns`
    of CLOCK_REALTIME. `temporary` counts blocks that their thread freed before it made another
    one. `error_bytes` is the half width of the 95 % interval of `live_bytes`, None if these are
    exact. If blocks were only counted, the peaks and `temporary` are None, as they are not known.
    """

    live: int = 0
    live_bytes: int = 0
    allocations: int = 0
    frees: int = 0
    allocated_bytes: int = 0
    peak: int | None = 0
    peak_bytes: int | None = 0
    peak_time_ns: int | None = None
    temporary: int | None = 0
    error_bytes: int | None = None


class ObjectTotals(Record):
    """Total numbers of objects: alive, created and destroyed."""

    live: int
    live_bytes: int
    created: int | None
    destroyed: int | None


class RssParts(Record):
    """The resident bytes of a process, divided into parts.

    `objects` are blocks of objects, `native` are other blocks in use, and `slack` is free memory
    that allocators keep. `other` is all the rest.
    """

    objects: int
    native: int
    slack: int
    files: int
    stacks: int
    other: int

    @property
    def total(self) -> int:
        """Return the sum of all parts, which is RSS."""
        return sum(getattr(self, name) for name in self.__slots__)


class EndOf(Record):
    """The end of a process: `status`, or the name of a `signal`. Both are None if not known."""

    status: int | None = None
    signal: str | None = None


class Cut(Record):
    """The place behind byte `at_byte` where a recording is cut off. `by` is the cause."""

    at_byte: int
    by: str


class MemProcess(Record):
    """A process of a recording; `state` is one of STATES."""

    pid: int
    parent: int | None
    command: list[str]
    state: str = CUT
    cut: Cut | None = None
    exit: EndOf | None = None


class Younger(Record):
    """Blocks and mappings that are alive and not older than `than_ns`."""

    than_ns: int
    count: int
    bytes: int  # as the document calls it


class MemReport(Record):
    """Everything that is shown of one recording.

    `objects_mode` and `native_mode` are "exact", "types", "count", "sampled" or "off". `runtime`
    is the name and version that the interpreter reports. `native_totals` and `mapped_totals` are
    None if blocks were not recorded. `rss` is the sum for all processes, each at its last look,
    None if there was no look. `rates` is the result of `Rates.said` for blocks. `threads` has by
    (pid, tid): blocks and mappings that are alive, their bytes, blocks that the thread made, and
    their bytes. `follows` means that the recording has other processes than the first.
    `uses_qualname` means that types are shown by their qualified names. `span` is the time (begin
    and end, ns of CLOCK_REALTIME) that sums of blocks cover, None if there are no sums.
    `has_two_moments` means that the native rows of blocks and of mappings belong to
    different moments. `younger` are the blocks and mappings that are alive and too young for the
    rows, None if no age was asked for.
    """

    command: list[str]
    pid: int
    exit: EndOf | None = None
    cost: Price | None = None  # cost of the recording for the programs
    executed: ChildPrograms = fresh(ChildPrograms)  # of children that were not followed
    runtime: dict[str, object] = fresh(dict)
    state: str = CUT
    cut: Cut | None = None
    objects_mode: str = "off"
    native_mode: str = "off"
    sample_bytes: int | None = None
    survivors: list[Survivor] = fresh(list)
    native: list[NativeRow] = fresh(list)
    object_totals: ObjectTotals | None = None
    native_totals: NativeTotals | None = None
    mapped_totals: NativeTotals | None = None
    rates: list[list[int]] = fresh(list)
    threads: dict[tuple[int, int], list[float]] = fresh(dict)
    rss: RssParts | None = None
    dropped: int = 0
    processes: list[MemProcess] = fresh(list)
    notes: list[str] = fresh(list)
    follows: bool = False
    has_two_moments: bool = False
    span: tuple[int, int] | None = None
    uses_qualname: bool = False
    younger: Younger | None = None


# Ends of the processes of a recording, and whether the recording reaches them.

_LEFT = ("detached", STOPPED_DURATION)


def processes_of(recording: RecordingFile) -> list[MemProcess]:
    """Return the processes in the order in which they began."""
    known: dict[int, MemProcess] = {}
    command = command_of(recording)
    for event in recording.events:
        if isinstance(event, ProcessStart):
            process = known.get(event.pid)
            if event.event == "exec":
                own = [event.program]
            elif event.parent in known:
                own = known[event.parent].command
            else:
                own = command
            if process is None or event.event != "exec":
                known[event.pid] = MemProcess(event.pid, event.parent, own)
            else:
                process.command = own
        elif isinstance(event, ProcessExit) and event.pid in known:
            killed = event.signal
            name = None if killed is None else signal_name(killed)
            known[event.pid].exit = EndOf(event.status, name)
    for process in known.values():
        judge(recording, process)
    return list(known.values())


def judge(recording: RecordingFile, process: MemProcess) -> None:
    """Set the state of a process: whether all of it is in the recording, and else what cut it.

    Damage to records of single events is only known when the records have been read.
    """
    full = recording.trouble
    if full is not None:
        process.state = DISK_FULL if full.is_full else CUT
        process.cut = Cut(full.at_byte, full.why)
    elif (
        recording.damage is None
        and recording.end is not None  # facts about a process may be recorded after its end
        and (process.exit is not None or _was_left(recording))
    ):
        process.state = COMPLETE
    else:
        process.state = CUT
        why = recording.damage or (recording.why if recording.end is None else "")
        stopped = str((recording.end or {}).get("why") or "")
        process.cut = Cut(recording.sound_bytes, why or stopped or "its end was not seen")


def _was_left(recording: RecordingFile) -> bool:
    """Return whether a recording of running processes reaches the moment of detaching."""
    end = recording.end
    is_attached = bool(recording.options.get("processes"))
    return is_attached and end is not None and end.get("why") in _LEFT


def command_of(recording: RecordingFile) -> list[str]:
    """Return the recorded command line, of a started command or of a running process."""
    words = recording.meta.get("command")
    blocks = recording.options.get("blocks")
    if not words and isinstance(blocks, dict):
        words = blocks.get("command")
    return [str(word) for word in words] if isinstance(words, list) else []
