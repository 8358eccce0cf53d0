# SPDX-License-Identifier: Apache-2.0
"""A profile: functions, the calls between them, and samples.

A profile comes from a recording, or from the file of another profiler. Reports and exports read
only this. Functions are denoted by their indices in `Profile.functions`.
"""

from __future__ import annotations

from soscope.control.outcome import ChildPrograms, Price
from soscope.model.call import Delays, StackFrame
from soscope.model.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.prof.timeline import ThreadTimeline


SCHEMA = "soscope/prof-report/1"  # schema of a report as a JSON document

COMPLETE = "complete"
EMPTY = "is a recording of soscope prof without calls and samples"
CUT = "cut"
DISK_FULL = "disk-full"
STATES = (COMPLETE, CUT, DISK_FULL)  # from the best state to the worst

# How instrumented libraries were recorded.
MODE_QUIET, MODE_COUNT, MODE_SAMPLE, MODE_TIME, MODE_LOG = "quiet", "count", "sample", "time", "log"
MODES = (MODE_QUIET, MODE_COUNT, MODE_SAMPLE, MODE_TIME, MODE_LOG)

HOOKS = "soscope's own hooks ran"  # reason why samples stand for no time of the program

NOBODY = -1  # in place of an unknown caller


class ProfFunction(Record):
    """A function of `image`, or a place outside of known functions, with `addr` and `size` 0.

    `image` is the image's name and `path` its file, "" if they are not known. `symbol` is "?" if
    the name is not known. `addr` and `size` are the link-time address and the bytes of the code.
    `file` and `line` are where the function begins, None if not known.
    """

    image: str
    symbol: str
    addr: int = 0
    size: int = 0
    path: str = ""
    file: str | None = None
    line: int | None = None


class ProfSums(Record):
    """The numbers of all calls of one function.

    `calls` is exact, or None if not known. `total_ns` is the time from entry to return; if the
    function calls itself, only of the outermost calls. `self_ns` is the time without the observed
    calls inside. `overhead_ns` is the cost of the probes, which has been subtracted from both.
    `doubt_ns` is the possible error of `self_ns`, or the known part of that error, and None if
    nothing is known.
    """

    calls: int | None = None
    total_ns: int | None = None
    self_ns: int | None = None
    overhead_ns: int | None = None
    doubt_ns: int | None = None


class ProfArc(Record):
    """The calls of `callee` by `caller`, which may be NOBODY.

    Their times are the same as in `ProfSums`. `total_doubt_ns` is the possible error of
    `total_ns`.
    """

    caller: int
    callee: int
    calls: int | None
    total_ns: int | None = None
    self_ns: int | None = None
    doubt_ns: int | None = None
    total_doubt_ns: int | None = None


class ProfNode(Record):
    """The calls of `function` on one call path: a node of a thread's calling-context tree.

    `parent` is the index of the node around it in `Profile.nodes`, NOBODY for a root. Parents
    come before their children. `thread` is an index into `Profile.threads`. Times and their
    possible errors are the same as in `ProfArc`.
    """

    parent: int
    function: int
    thread: int
    calls: int
    total_ns: int | None
    self_ns: int | None
    doubt_ns: int | None = None
    total_doubt_ns: int | None = None


class ProfSample(Record):
    """A stack that was seen `weight` times in `thread`, an index into `Profile.threads`.

    `frames` begin with the innermost one.
    """

    thread: int
    frames: tuple[StackFrame, ...]
    weight: int


class ProfThread(Record):
    """A thread of a process. `name` is its own name, "" if that is not known.

    Threads that were counted together are one record with `tid` 0, and `count` is how many they
    are.
    """

    pid: int
    tid: int
    name: str = ""
    count: int = 1


class Profile(Record):
    """A whole profile. `state` is one of STATES; `status` or `signal` tell how the command ended.

    `mode` is one of MODES, None if no instrumented library was recorded. `boundary` is "count",
    "time" or None. `sums` belong to `functions`, in the same order. `nodes` are filled if whole
    trees were recorded, and `arcs` if calls were. `timeline` has single calls, None if they were
    not recorded or not asked for. `sample_ns` is the time that a sample stands for, None if there
    are no samples. `is_chosen` means that no option chose how to profile, so calls and samples
    are shown together. `processor_ns` is how long all threads ran while they were profiled, None
    if not known, and `hooks_ns` is the part of it that soscope's own hooks took, by samples.
    `missed_ns` is processor time without samples, by reason, largest first. `not_sampled` tells
    why processes have no samples. `calls` and `dropped` are numbers of calls. `cost` is what the
    recording has cost the programs, None if not known. `executed` are programs that children have
    executed and that were not followed. `delays` are waits for a processor, which times of calls
    exclude.
    """

    command: list[str]
    state: str = COMPLETE
    status: int | None = None
    signal: str | None = None
    mode: str | None = None
    boundary: str | None = None
    sample_ns: int | None = None
    is_chosen: bool = False
    processor_ns: int | None = None
    hooks_ns: int = 0
    missed_ns: dict[str, int] = fresh(dict)
    not_sampled: list[str] = fresh(list)
    functions: list[ProfFunction] = fresh(list)
    sums: list[ProfSums] = fresh(list)
    arcs: list[ProfArc] = fresh(list)
    nodes: list[ProfNode] = fresh(list)
    samples: list[ProfSample] = fresh(list)
    threads: list[ProfThread] = fresh(list)
    timeline: list[ThreadTimeline] | None = None
    delays: Delays = fresh(Delays)
    calls: int = 0
    dropped: int = 0
    cost: Price | None = None
    executed: ChildPrograms = fresh(ChildPrograms)
    notes: list[str] = fresh(list)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to show."""
        return not (self.arcs or self.nodes or self.samples)

    @property
    def sampled_ns(self) -> int:
        """Return the processor time that all samples stand for."""
        return sum(sample.weight for sample in self.samples) * (self.sample_ns or 0)

    @property
    def own_ns(self) -> int | None:
        """Return the processor time without soscope's hooks, None if it is not known.

        A process that ended between two looks has run for longer than the last look told.
        """
        if self.processor_ns is None:
            return None
        return max(self.processor_ns - self.hooks_ns, self.sampled_ns)

    @property
    def thread_count(self) -> int:
        """Return how many threads there were; one that was sampled and counted is one thread."""
        known = {(thread.pid, thread.tid) for thread in self.threads if thread.tid}
        return len(known) + sum(thread.count for thread in self.threads if not thread.tid)


# Settings of a profile.


class ProfSettings(Record):
    """What to profile in a command, or in a process that runs already, and how.

    `images` are patterns as of `-l`, and [] stands for all. `mode` is one of `model.MODES` for
    instrumented libraries, None if they are not recorded. In mode `sample` one call in `interval`
    is timed. `boundary` is "count" or "time", None if calls between images are not recorded.
    `sample` is how many samples are taken in a second of a thread's processor time, None if no
    samples are wanted. `record` is the path of the recording. `pid` is a process to attach to, in
    place of `command`. `duration_ns` is for how long. If it is None, the recording goes on to the
    end of the process, or until soscope is interrupted. `is_chosen` means that no option chose
    how to profile, but soscope did. `buffer` and `when_full` are the same as in
    `SessionSettings`, None for a suitable value. `begun` is called when everything is hooked.
    """

    command: list[str]
    record: str
    images: list[str]
    mode: str | None = None
    interval: int = 64
    boundary: str | None = None
    sample: int | None = None
    follow: bool = False
    pid: int | None = None
    duration_ns: int | None = None
    is_chosen: bool = False
    buffer: int | None = None
    when_full: str | None = None
    begun: Callable[[], object] = lambda: None
