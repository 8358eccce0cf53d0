# SPDX-License-Identifier: Apache-2.0
"""Make a profile from the calls that instrumented code has reported.

Times in a recording are ticks that include the cost of the hooks. Times in a profile do not.
"""

from __future__ import annotations

from soscope.instruments.prof.instrumented import (
    ROOT,
    CallNode,
    ReportedCalls,
    ThreadCalls,
    means_of,
    node_times,
    unpack,
)
from soscope.instruments.prof.model import (
    MODE_LOG,
    MODE_QUIET,
    NOBODY,
    ProfFunction,
    Profile,
    ProfNode,
    ProfThread,
)
from soscope.instruments.prof.names import RecordedNames
from soscope.instruments.prof.report import prof_options
from soscope.instruments.prof.views import ArcSums
from soscope.recording.names import RecordedProgram, in_image
from soscope.recording.reader import RecordingFile
from soscope.wire import headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.log import ThreadLog
    from soscope.instruments.prof.timeline import ThreadTimeline
    from soscope.recording.clock import Clock

_AT_THE_END = (1 << 64) - 1
_NO_CALLER = (0, headers.PROF_NO_CALLER)
_LOST = (
    ("left", "calls did not return: longjmp, an exception, a coroutine or the end of a thread"),
    (
        "still_open",
        "calls had not returned at the end: they or their coroutine went on, or their thread ended",
    ),
    ("unpaired", "returns of calls that were not seen to begin"),
    ("deep", "calls were counted and not timed: too many were open at once"),
)
_OVERWRITTEN = "a child that a signal handler has forked wrote over them"
_UNPATCHED = {
    headers.PROF_LEFT_SMALL: "there is no room for a call",
    headers.PROF_LEFT_OTHER: "something else than no-operations is there",
    headers.PROF_LEFT_START: "it is not known where the function begins",
    headers.PROF_LEFT_WRITE: "their code cannot be written",
    headers.PROF_LEFT_FULL: "no memory in reach may hold code",
}


def add_reported(
    recording: RecordingFile, profile: Profile, sums: ArcSums, names: RecordedNames
) -> None:
    """Add the calls that instrumented code has reported. Raises FormatError for damage."""
    lost: dict[str, int] = {}
    hooks = foreign = unread = 0
    left = [0] * headers.PROF_LEFT_KINDS
    counted = timed = 0  # calls of programs in which not all calls are timed
    mixed: set[str] = set()
    overwritten = 0
    for number, calls in reported_calls(recording):
        program = _Program(recording.programs[number], calls, recording.clock.rate, sums, names)
        hooks += calls.slots + calls.entries
        foreign += calls.foreign
        left = [before + more for before, more in zip(left, calls.left, strict=True)]
        unread += calls.unread
        for thread in calls.threads:
            program.add(thread, profile)
            if thread.log is not None:
                overwritten += thread.log.overwritten
                if profile.timeline is not None:
                    profile.timeline.append(
                        program.timeline(thread, thread.log, profile, recording.clock)
                    )
            if calls.period > 1:
                counted += sum(node.calls for node in thread.nodes)
                timed += sum(node.timed for node in thread.nodes)
            mixed |= program.mixed
            profile.dropped += thread.dropped
            for name, _ in _LOST:
                lost[name] = lost.get(name, 0) + getattr(thread, name)
    profile.notes += [f"{lost[name]:,} {why}" for name, why in _LOST if lost.get(name)]
    if overwritten:
        profile.notes.append(f"{overwritten:,} calls lost: {_OVERWRITTEN}")
    if counted:
        profile.notes.append(f"times are estimates: {timed:,} of {counted:,} calls were timed")
    if mixed:
        several = ", ".join(sorted(mixed))
        profile.notes.append(f"functions at places that several images had in turn: {several}")
    if foreign:
        profile.notes.append(f"{foreign:,} hooks were left to another profiler")
    profile.notes += [
        f"{count:,} patchable entries are not patched: {_UNPATCHED[why]}"
        for why, count in enumerate(left)
        if count
    ]
    if unread:
        profile.notes.append(f"{unread:,} images without a file: their entries are not known")
    if not hooks and profile.mode != MODE_QUIET and not profile.is_chosen:
        profile.notes.append(
            "no image reports its calls: none was built with -pg, -finstrument-functions or"
            " -fpatchable-function-entry"
        )


def reported_calls(recording: RecordingFile) -> list[tuple[int, ReportedCalls]]:
    """Return the reported calls of each program by its number. Logged calls are added up.

    Raises FormatError for damage.
    """
    reported = [(number, unpack(said)) for number, said in recording.reported]
    if (prof_options(recording) or {}).get("mode") == MODE_LOG:
        from soscope.instruments.prof.log import add_logged

        add_logged(recording, reported)
    return reported


class _Program:
    """The calls of one program, with their functions."""

    def __init__(
        self,
        program: RecordedProgram,
        calls: ReportedCalls,
        ns_per_tick: float,
        sums: ArcSums,
        names: RecordedNames,
    ) -> None:
        self._program = program
        self._calls = calls
        self._rate = ns_per_tick
        self._sums = sums
        self._names = names
        self._means = means_of(calls)
        self.mixed: set[str] = set()  # images that lay at one place in turn

    def add(self, thread: ThreadCalls, profile: Profile) -> None:
        """Add the calls of a thread."""
        nodes = thread.nodes
        pid = thread.pid
        functions = [self._function(node, pid) for node in nodes]
        times = node_times(self._calls, thread, self._means)
        is_tree = self._calls.mode != headers.PROF_COUNT
        at = len(profile.threads)
        first = len(profile.nodes)
        if nodes:
            profile.threads.append(ProfThread(thread.pid, thread.tid, count=max(thread.threads, 1)))
        around: list[frozenset[int]] = []
        for index, node in enumerate(nodes):
            function = functions[index]
            is_root = node.parent == ROOT
            total, own = self._ns(times[index].total), self._ns(times[index].self_)
            probes, doubt = self._ns(times[index].overhead), self._ns(times[index].doubt)
            total_doubt = self._ns(times[index].total_doubt)
            outside = frozenset[int]() if is_root else around[node.parent]
            around.append(outside | {function})
            caller = self._outside(node.caller, pid) if is_root else functions[node.parent]
            is_outermost = function not in outside
            inclusive = 0 if total is not None and not is_outermost else total
            outermost_doubt = total_doubt if is_outermost else 0
            self._sums.add(caller, function, node.calls, inclusive, own, doubt, outermost_doubt)
            if probes is not None:
                self._sums.add_overhead(function, probes)
            if is_tree:
                parent = NOBODY if is_root else first + node.parent
                profile.nodes.append(
                    ProfNode(parent, function, at, node.calls, total, own, doubt, total_doubt)
                )

    def timeline(
        self, thread: ThreadCalls, log: ThreadLog, profile: Profile, clock: Clock
    ) -> ThreadTimeline:
        """Return the timeline of the thread that was added last, whose calls are in `log`."""
        from soscope.instruments.prof.log import timeline_of
        from soscope.recording.columns import Times

        pid = thread.pid
        functions = {(node.function, node.hook): self._function(node, pid) for node in thread.nodes}
        return timeline_of(len(profile.threads) - 1, log, functions, Times(clock))

    def _ns(self, ticks: int | None) -> int | None:
        return None if ticks is None else round(ticks * self._rate)

    def _function(self, node: CallNode, pid: int) -> int:
        """Return the function of a node, which has its start address or an address inside of it."""
        is_start = node.hook == headers.PROF_CYG
        return self._at(node.function if is_start else node.function - 1, pid)

    def _outside(self, addr: int, pid: int) -> int:
        return NOBODY if addr in _NO_CALLER else self._at(addr - 1, pid)

    def _at(self, addr: int, pid: int) -> int:
        """Return the function at an address, which has its image's number if `pid` has closed that.

        `pid` is 0 if several processes have recorded the address.
        """
        if pid:
            addr = self._program.word(addr + 1, pid, _AT_THE_END) - 1
        index, addr = in_image(addr)
        if index is not None:
            image = self._program.images().get(index)
        elif (image := self._program.image_at(addr)) is None and not self._calls.is_followed:
            image = self._program.open_at(addr)
        if image is None:
            self.mixed |= {other.label for other in self._program.files_at(addr)}
            return self._sums.function(ProfFunction("", "?", addr))
        return self._sums.function(self._names.of(image).at(addr - image.load_bias))
