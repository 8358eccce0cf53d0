# SPDX-License-Identifier: Apache-2.0
"""What a recording of memory says: objects and blocks that stay alive, and how much there was."""

from __future__ import annotations

from soscope.control.cost import Price
from soscope.control.outcome import ChildPrograms
from soscope.model.record import Record
from soscope.model.stackframe import StackFrame

SCHEMA = "soscope/mem-report/1"  # of a report as a document

COMPLETE = "complete"
CUT = "cut"
DISK_FULL = "disk-full"
STATES = (COMPLETE, CUT, DISK_FULL)  # the worst is the last

ALIVE = "alive"  # the native rows: at the end,
PEAK = "peak"  # when most bytes were there,
TEMPORARY = "temporary"  # or blocks that were freed at once


class Survivor(Record):
    """Objects of one type that were made at one line and are alive.

    `file` is None where no frame was running. `error_count` and `error_bytes` are half widths of
    the 95 % interval where objects were sampled, else None.
    """

    __slots__ = (
        "bytes",
        "count",
        "error_bytes",
        "error_count",
        "file",
        "line",
        "pid",
        "qualname",
        "type",
    )

    def __init__(
        self,
        file: str | None,
        line: int,
        type: str,  # noqa: A002  as the document calls it
        qualname: str,
        count: int,
        bytes: int,  # noqa: A002  as the document calls it
        pid: int,
        error_count: int | None = None,
        error_bytes: int | None = None,
    ) -> None:
        self.file = file
        self.line = line
        self.type = type
        self.qualname = qualname
        self.count = count
        self.bytes = bytes
        self.pid = pid
        self.error_count = error_count
        self.error_bytes = error_bytes


class NativeRow(Record):
    """Blocks or mappings of one stack. `api` is the function that the program called.

    `thread` made all of them, None: several did. `frames` begin with the caller of `api`.
    `error_bytes` is the half width of the 95 % interval of `bytes` where blocks were sampled (of
    mappings, which are not: 0), else None. `sizes` are the smallest and largest size of the blocks
    where they were counted by size class alone, and `frames` empty; else None.
    """

    __slots__ = ("api", "bytes", "count", "error_bytes", "frames", "pid", "sizes", "thread")

    def __init__(
        self,
        api: str,
        count: int,
        bytes: int,  # noqa: A002  as the document calls it
        thread: int | None,
        frames: tuple[StackFrame, ...],
        pid: int,
        error_bytes: int | None = None,
        sizes: tuple[int, int] | None = None,
    ) -> None:
        self.api = api
        self.sizes = sizes
        self.count = count
        self.bytes = bytes
        self.thread = thread
        self.frames = frames
        self.pid = pid
        self.error_bytes = error_bytes


class NativeTotals(Record):
    """How many blocks, or mappings, there were, and how many bytes were asked for.

    `peak` and `peak_bytes` are what was alive when most bytes were, at `peak_time_ns` of
    CLOCK_REALTIME. `temporary` counts those that their thread freed before it made another one.
    `error_bytes` is the half width of the 95 % interval of `live_bytes`, None: they are exact.
    Of blocks that were only counted nobody knows peaks and temporary ones: None.
    """

    __slots__ = (
        "allocated_bytes",
        "allocations",
        "error_bytes",
        "frees",
        "live",
        "live_bytes",
        "peak",
        "peak_bytes",
        "peak_time_ns",
        "temporary",
    )

    def __init__(
        self,
        *,
        live: int = 0,
        live_bytes: int = 0,
        allocations: int = 0,
        frees: int = 0,
        allocated_bytes: int = 0,
        peak: int | None = 0,
        peak_bytes: int | None = 0,
        peak_time_ns: int | None = None,
        temporary: int | None = 0,
        error_bytes: int | None = None,
    ) -> None:
        self.error_bytes = error_bytes
        self.live = live
        self.live_bytes = live_bytes
        self.allocations = allocations
        self.frees = frees
        self.allocated_bytes = allocated_bytes
        self.peak = peak
        self.peak_bytes = peak_bytes
        self.peak_time_ns = peak_time_ns
        self.temporary = temporary


class ObjectTotals(Record):
    """How many objects there were."""

    __slots__ = ("created", "destroyed", "live", "live_bytes")

    def __init__(
        self, live: int, live_bytes: int, created: int | None, destroyed: int | None
    ) -> None:
        self.live = live
        self.live_bytes = live_bytes
        self.created = created
        self.destroyed = destroyed


class RssParts(Record):
    """Resident bytes, each of them in one part.

    `objects` are blocks of objects, `native` other blocks in use, `slack` what allocators keep
    free; `other` is all that is none of these.
    """

    __slots__ = ("objects", "native", "slack", "files", "stacks", "other")  # noqa: RUF023  an order

    def __init__(self, *parts: int) -> None:
        """Take the parts in order. Raises ValueError where they are not six."""
        for name, part in zip(self.__slots__, parts, strict=True):
            setattr(self, name, part)

    @property
    def total(self) -> int:
        """All of them: RSS."""
        return sum(getattr(self, name) for name in self.__slots__)


class EndOf(Record):
    """How a process ended: `status`, or the name of a `signal`; both None: it is not known."""

    __slots__ = ("signal", "status")

    def __init__(self, status: int | None = None, signal: str | None = None) -> None:
        self.status = status
        self.signal = signal


class Cut(Record):
    """Where a recording ends before its program: behind `at_byte`, and `by` what."""

    __slots__ = ("at_byte", "by")

    def __init__(self, at_byte: int, by: str) -> None:
        self.at_byte = at_byte
        self.by = by


class MemProcess(Record):
    """A process of a recording; `state` is one of STATES."""

    __slots__ = ("command", "cut", "exit", "parent", "pid", "state")

    def __init__(self, pid: int, parent: int | None, command: list[str]) -> None:
        self.pid = pid
        self.parent = parent
        self.command = command
        self.state = CUT
        self.cut: Cut | None = None
        self.exit: EndOf | None = None


class Younger(Record):
    """Blocks and mappings that are alive, and not older than `than_ns`."""

    __slots__ = ("bytes", "count", "than_ns")

    def __init__(self, than_ns: int, count: int, size: int) -> None:
        self.than_ns = than_ns
        self.count = count
        self.bytes = size


class MemReport(Record):
    """All that is shown of one recording.

    `objects_mode` and `native_mode` are "exact", "types", "count", "sampled" or "off". `runtime`
    is what the interpreter says of itself. `native_totals` and `mapped_totals` are None where
    blocks were not recorded. `rss` is that of all processes together, each at its last look, None
    where nobody could look. `rates` is what `Rates.said` returns of
    blocks. `threads` are by (pid, tid): blocks and mappings that are alive, their bytes, blocks
    that the thread made, and their bytes. `follows`: other processes than the first are in it.
    `uses_qualname`: types are shown by their qualified names. `span` is from when to when (ns of
    CLOCK_REALTIME) blocks were summed up, None where there are no sums. `has_two_moments`: there
    are native rows of blocks, of one moment, and rows of mappings, of another one. `younger` is
    what is alive and not among the rows for its age, None if nobody asked for an age.
    """

    __slots__ = (
        "command",
        "cost",
        "cut",
        "dropped",
        "executed",
        "exit",
        "follows",
        "has_two_moments",
        "mapped_totals",
        "native",
        "native_mode",
        "native_totals",
        "notes",
        "object_totals",
        "objects_mode",
        "pid",
        "processes",
        "rates",
        "rss",
        "runtime",
        "sample_bytes",
        "span",
        "state",
        "survivors",
        "threads",
        "uses_qualname",
        "younger",
    )

    def __init__(self, command: list[str], pid: int) -> None:
        self.command = command
        self.pid = pid
        self.exit: EndOf | None = None
        self.cost: Price | None = None  # what it has cost the programs
        self.executed = ChildPrograms()  # programs that children have executed, not followed
        self.runtime: dict[str, object] = {}
        self.state = CUT
        self.cut: Cut | None = None
        self.objects_mode = "off"
        self.native_mode = "off"
        self.sample_bytes: int | None = None
        self.survivors: list[Survivor] = []
        self.native: list[NativeRow] = []
        self.object_totals: ObjectTotals | None = None
        self.native_totals: NativeTotals | None = None
        self.mapped_totals: NativeTotals | None = None
        self.rates: list[list[int]] = []
        self.threads: dict[tuple[int, int], list[float]] = {}
        self.rss: RssParts | None = None
        self.dropped = 0
        self.processes: list[MemProcess] = []
        self.notes: list[str] = []
        self.follows = False
        self.has_two_moments = False
        self.span: tuple[int, int] | None = None
        self.uses_qualname = False
        self.younger: Younger | None = None
