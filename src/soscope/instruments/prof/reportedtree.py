# SPDX-License-Identifier: Apache-2.0
"""From the calls that instrumented code has reported to a profile.

Times of a recording are ticks with all that the hooks themselves cost; those of a profile are
without it.
"""

from __future__ import annotations

from soscope.instruments.prof.model import NOBODY, ProfFunction, Profile, ProfNode, ProfThread
from soscope.instruments.prof.nodetimes import means_of, node_times
from soscope.instruments.prof.recordednames import RecordedNames
from soscope.instruments.prof.reported import unpack
from soscope.instruments.prof.sums import ArcSums
from soscope.instruments.prof.tree import ROOT, CallNode, ReportedCalls, ThreadCalls
from soscope.recording.names import RecordedProgram
from soscope.recording.reader import RecordingFile
from soscope.wire import proflayout

_NO_CALLER = (0, proflayout.PROF_NO_CALLER)
_LOST = (
    ("left", "calls did not return: longjmp, an exception or a coroutine has ended them"),
    ("unpaired", "returns of calls that were not seen to begin"),
    ("deep", "calls were counted and not timed: too many were open at once"),
)


def add_reported(
    recording: RecordingFile, profile: Profile, sums: ArcSums, names: RecordedNames
) -> None:
    """Add what instrumented code has reported. Raises FormatError for damage."""
    lost: dict[str, int] = {}
    slots = foreign = 0
    counted = timed = 0  # where not all calls are timed
    mixed: set[str] = set()
    for number, said in recording.reported:
        calls = unpack(said)
        program = _Program(recording.programs[number], calls, recording.clock.rate, sums, names)
        slots += calls.slots
        foreign += calls.foreign
        for thread in calls.threads:
            program.add(thread, profile)
            if calls.period > 1:
                counted += sum(node.calls for node in thread.nodes)
                timed += sum(node.timed for node in thread.nodes)
            mixed |= program.mixed
            profile.dropped += thread.dropped
            for name, _ in _LOST:
                lost[name] = lost.get(name, 0) + getattr(thread, name)
    profile.notes += [f"{lost[name]:,} {why}" for name, why in _LOST if lost.get(name)]
    if counted:
        profile.notes.append(f"times are estimates: {timed:,} of {counted:,} calls were timed")
    if mixed:
        several = ", ".join(sorted(mixed))
        profile.notes.append(f"functions at places that several images had in turn: {several}")
    if foreign:
        profile.notes.append(f"{foreign:,} hooks were left to another profiler")
    if not slots:
        profile.notes.append(
            "no image reports its calls: none was built with -pg or -finstrument-functions"
        )


class _Program:
    """One program's calls, with their functions."""

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
        self.mixed: set[str] = set()  # images that had one another's place

    def add(self, thread: ThreadCalls, profile: Profile) -> None:
        """Add the calls of a thread."""
        nodes = thread.nodes
        functions = [self._function(node) for node in nodes]
        times = node_times(self._calls, thread, self._means)
        is_tree = self._calls.mode in (proflayout.PROF_TIME, proflayout.PROF_SAMPLE)
        at = len(profile.threads)
        first = len(profile.nodes)
        if nodes:
            profile.threads.append(ProfThread(thread.pid, thread.tid))
        around: list[frozenset[int]] = []
        for index, node in enumerate(nodes):
            function = functions[index]
            is_root = node.parent == ROOT
            total, own = self._ns(times[index].total), self._ns(times[index].self_)
            probes = self._ns(times[index].overhead)
            outside = frozenset[int]() if is_root else around[node.parent]
            around.append(outside | {function})
            caller = self._outside(node.caller) if is_root else functions[node.parent]
            is_outermost = function not in outside
            inclusive = 0 if total is not None and not is_outermost else total
            self._sums.add(caller, function, node.calls, inclusive, own)
            if probes is not None:
                self._sums.add_overhead(function, probes)
            if is_tree:
                parent = NOBODY if is_root else first + node.parent
                profile.nodes.append(ProfNode(parent, function, at, node.calls, total, own))

    def _ns(self, ticks: int | None) -> int | None:
        return None if ticks is None else round(ticks * self._rate)

    def _function(self, node: CallNode) -> int:
        """Return the function of a node: its hook tells it, or an address inside."""
        is_start = node.hook == proflayout.PROF_CYG
        return self._at(node.function if is_start else node.function - 1)

    def _outside(self, addr: int) -> int:
        return NOBODY if addr in _NO_CALLER else self._at(addr - 1)

    def _at(self, addr: int) -> int:
        image = self._program.image_at(addr)
        if image is None:
            self.mixed |= {other.label for other in self._program.files_at(addr)}
            return self._sums.function(ProfFunction("", "?", addr))
        return self._sums.function(self._names.of(image).at(addr - image.load_bias))
