# SPDX-License-Identifier: Apache-2.0
"""What a profile says: functions, the calls between them, and samples.

A profile comes of a recording, or of a file of another profiler. Reports and exports know nothing
but this. Functions are named by their places in `Profile.functions`.
"""

from __future__ import annotations

from soscope.control.cost import Price
from soscope.control.outcome import ChildPrograms
from soscope.model.delays import Delays
from soscope.model.record import Record
from soscope.model.stackframe import StackFrame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.timeline import ThreadTimeline

SCHEMA = "soscope/prof-report/1"  # of a report as a document

COMPLETE = "complete"
EMPTY = "is a recording of soscope prof without calls and samples"
CUT = "cut"
DISK_FULL = "disk-full"
STATES = (COMPLETE, CUT, DISK_FULL)  # the worst is the last

# how instrumented libraries were recorded
MODE_QUIET, MODE_COUNT, MODE_SAMPLE, MODE_TIME, MODE_LOG = "quiet", "count", "sample", "time", "log"
MODES = (MODE_QUIET, MODE_COUNT, MODE_SAMPLE, MODE_TIME, MODE_LOG)

HOOKS = "soscope's own hooks ran"  # why samples stand for no time of the program's

NOBODY = -1  # the function in front of the first one: nobody knows who called


class ProfFunction(Record):
    """A function of `image`, or the outside: of which `addr` is 0 and `size` is 0.

    `image` is the image's name and `path` its file, "" where they are not known; `symbol` is "?"
    where nobody knows the name. `addr` and `size` are the link-time address and the bytes of the
    code. `file` and `line` are where it begins, None: not known.
    """

    __slots__ = ("addr", "file", "image", "line", "path", "size", "symbol")

    def __init__(
        self,
        image: str,
        symbol: str,
        addr: int = 0,
        size: int = 0,
        path: str = "",
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        self.image = image
        self.symbol = symbol
        self.addr = addr
        self.size = size
        self.path = path
        self.file = file
        self.line = line


class ProfSums(Record):
    """What is known of all calls of one function.

    `calls` is exact, None: not known. `total_ns` is the time from entry to return, of the outermost
    calls alone where the function calls itself; `self_ns` is that without the calls inside that
    were seen. `overhead_ns` is what the probes have cost, and what has been taken off those two.
    `doubt_ns` is by how much `self_ns` may be wrong; at least, if not all of it is known. None:
    nobody knows.
    """

    __slots__ = ("calls", "doubt_ns", "overhead_ns", "self_ns", "total_ns")

    def __init__(
        self,
        calls: int | None = None,
        total_ns: int | None = None,
        self_ns: int | None = None,
        overhead_ns: int | None = None,
        doubt_ns: int | None = None,
    ) -> None:
        self.calls = calls
        self.total_ns = total_ns
        self.self_ns = self_ns
        self.overhead_ns = overhead_ns
        self.doubt_ns = doubt_ns


class ProfArc(Record):
    """The calls of `callee` by `caller`, which may be NOBODY.

    Their times are as in `ProfSums`; `total_doubt_ns` is by how much `total_ns` may be wrong.
    """

    __slots__ = (
        "callee",
        "caller",
        "calls",
        "doubt_ns",
        "self_ns",
        "total_doubt_ns",
        "total_ns",
    )

    def __init__(
        self,
        caller: int,
        callee: int,
        calls: int | None,
        total_ns: int | None = None,
        self_ns: int | None = None,
        doubt_ns: int | None = None,
        total_doubt_ns: int | None = None,
    ) -> None:
        self.caller = caller
        self.callee = callee
        self.calls = calls
        self.total_ns = total_ns
        self.self_ns = self_ns
        self.doubt_ns = doubt_ns
        self.total_doubt_ns = total_doubt_ns


class ProfNode(Record):
    """The calls of `function` by one way: a node of a thread's calling-context tree.

    `parent` is the place of the node around it in `Profile.nodes`, NOBODY: it is a root. A parent
    stands in front of its children. `thread` is a place in `Profile.threads`. Times, and by how
    much they may be wrong, are as in `ProfArc`.
    """

    __slots__ = (
        "calls",
        "doubt_ns",
        "function",
        "parent",
        "self_ns",
        "thread",
        "total_doubt_ns",
        "total_ns",
    )

    def __init__(
        self,
        parent: int,
        function: int,
        thread: int,
        calls: int,
        total_ns: int | None,
        self_ns: int | None,
        doubt_ns: int | None = None,
        total_doubt_ns: int | None = None,
    ) -> None:
        self.parent = parent
        self.function = function
        self.thread = thread
        self.calls = calls
        self.total_ns = total_ns
        self.self_ns = self_ns
        self.doubt_ns = doubt_ns
        self.total_doubt_ns = total_doubt_ns


class ProfSample(Record):
    """A stack that was seen `weight` times in `thread`, a place in `Profile.threads`.

    `frames` begin with the innermost one.
    """

    __slots__ = ("frames", "thread", "weight")

    def __init__(self, thread: int, frames: tuple[StackFrame, ...], weight: int) -> None:
        self.thread = thread
        self.frames = frames
        self.weight = weight


class ProfThread(Record):
    """A thread of a process; `name` is what it calls itself, "" where that is not known.

    Several that were counted together are one whose `tid` is 0; `count` is how many.
    """

    __slots__ = ("count", "name", "pid", "tid")

    def __init__(self, pid: int, tid: int, name: str = "", count: int = 1) -> None:
        self.pid = pid
        self.tid = tid
        self.name = name
        self.count = count


class Profile(Record):
    """All that is known. `state` is one of STATES, `status` or `signal` is how the command ended.

    `mode` is one of MODES, None: no instrumented library was recorded; `boundary` is "count",
    "time" or None. `sums` are those of `functions`, in the same order. `nodes` are there where
    whole trees were recorded, and `arcs` where calls were. `timeline` has the calls one by
    one, None: they were not recorded so, or nobody asks. `sample_ns` is the time that a sample
    stands for, None: there are none. `is_chosen`: no option said how to profile, so calls and
    samples tell of the run together. `processor_ns` is how long all threads ran while they were
    profiled, None: nobody knows, and `hooks_ns` how much of that soscope's own hooks took, by
    samples. `missed_ns` is processor time that no sample stands for, by reason, the most first, and
    `not_sampled` says why there are no samples of processes. `calls` and `dropped` are numbers of
    calls. `cost` is what it has cost the programs, None where nobody knows. `executed` are programs
    that children have executed and nobody has followed. `delays` are waits for a processor, which
    times of calls are without.
    """

    __slots__ = (
        "arcs",
        "boundary",
        "calls",
        "command",
        "cost",
        "delays",
        "dropped",
        "executed",
        "functions",
        "hooks_ns",
        "is_chosen",
        "missed_ns",
        "mode",
        "nodes",
        "not_sampled",
        "notes",
        "processor_ns",
        "sample_ns",
        "samples",
        "signal",
        "state",
        "status",
        "sums",
        "threads",
        "timeline",
    )

    def __init__(
        self,
        command: list[str],
        *,
        state: str = COMPLETE,
        status: int | None = None,
        signal: str | None = None,
        mode: str | None = None,
        boundary: str | None = None,
        sample_ns: int | None = None,
    ) -> None:
        self.command = command
        self.state = state
        self.status = status
        self.signal = signal
        self.mode = mode
        self.boundary = boundary
        self.sample_ns = sample_ns
        self.is_chosen = False
        self.processor_ns: int | None = None
        self.hooks_ns = 0
        self.missed_ns: dict[str, int] = {}
        self.not_sampled: list[str] = []
        self.functions: list[ProfFunction] = []
        self.sums: list[ProfSums] = []
        self.arcs: list[ProfArc] = []
        self.nodes: list[ProfNode] = []
        self.samples: list[ProfSample] = []
        self.threads: list[ProfThread] = []
        self.timeline: list[ThreadTimeline] | None = None
        self.delays = Delays()
        self.calls = 0
        self.dropped = 0
        self.cost: Price | None = None
        self.executed = ChildPrograms()
        self.notes: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to show."""
        return not (self.arcs or self.nodes or self.samples)

    @property
    def sampled_ns(self) -> int:
        """The processor time that all samples stand for."""
        return sum(sample.weight for sample in self.samples) * (self.sample_ns or 0)

    @property
    def own_ns(self) -> int | None:
        """The processor time without that of soscope's hooks, None: nobody knows.

        A process that ended between two looks at it ran for longer than the last look said.
        """
        if self.processor_ns is None:
            return None
        return max(self.processor_ns - self.hooks_ns, self.sampled_ns)

    @property
    def thread_count(self) -> int:
        """How many threads there were: each once, whether it was sampled, counted or both."""
        known = {(thread.pid, thread.tid) for thread in self.threads if thread.tid}
        return len(known) + sum(thread.count for thread in self.threads if not thread.tid)
