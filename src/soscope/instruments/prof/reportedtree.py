# SPDX-License-Identifier: Apache-2.0
"""From the calls that instrumented code has reported to a profile.

Times of a recording are ticks with all that the hooks themselves cost; those of a profile are
without it.
"""

from __future__ import annotations

from soscope.instruments.prof.model import NOBODY, ProfFunction, Profile, ProfNode, ProfThread
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
    for number, said in recording.reported:
        calls = unpack(said)
        program = _Program(recording.programs[number], calls, recording.clock.rate, sums, names)
        slots += calls.slots
        foreign += calls.foreign
        for thread in calls.threads:
            program.learn(thread)
        for thread in calls.threads:
            program.add(thread, profile)
            profile.dropped += thread.dropped
            for name, _ in _LOST:
                lost[name] = lost.get(name, 0) + getattr(thread, name)
    profile.notes += [f"{lost[name]:,} {why}" for name, why in _LOST if lost.get(name)]
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
        self._timed: dict[int, tuple[float, int]] = {}  # by function: ticks, calls

    def learn(self, thread: ThreadCalls) -> None:
        """Learn how long calls of each function take that were timed."""
        for node in thread.nodes:
            ticks, calls = self._timed.get(node.function, (0.0, 0))
            inner = self._calls.costs[node.hook][0]
            each = max(0.0, float(node.total_ticks - inner * node.timed))
            self._timed[node.function] = ticks + each, calls + node.timed

    def add(self, thread: ThreadCalls, profile: Profile) -> None:
        """Add the calls of a thread."""
        nodes = thread.nodes
        functions = [self._function(node) for node in nodes]
        times = self._times(nodes)
        is_tree = self._calls.mode in (proflayout.PROF_TIME, proflayout.PROF_SAMPLE)
        at = len(profile.threads)
        first = len(profile.nodes)
        if nodes:
            profile.threads.append(ProfThread(thread.pid, thread.tid))
        around: list[frozenset[int]] = []
        for index, node in enumerate(nodes):
            function = functions[index]
            is_root = node.parent == ROOT
            total, own, probes = times[index]
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

    def _times(self, nodes: list[CallNode]) -> list[tuple[int | None, int | None, int | None]]:
        """Return (total, self, what the hooks have cost) of each node, in ns; None: not known."""
        mode = self._calls.mode
        if mode == proflayout.PROF_TIME:
            return self._exact(nodes)
        if mode == proflayout.PROF_SAMPLE:
            return self._estimated(nodes)
        return [(None, None, None)] * len(nodes)

    def _exact(self, nodes: list[CallNode]) -> list[tuple[int | None, int | None, int | None]]:
        """Take off what empty calls take: of each call inside all that is not its own time.

        So a total is the sum of the own times of all calls inside.
        """
        costs = self._calls.costs
        own = [float(node.self_ticks - costs[node.hook][0] * node.timed) for node in nodes]
        for node in nodes:
            if node.parent != ROOT:
                inner, outer = costs[node.hook]
                own[node.parent] -= (outer - inner) * node.timed
        own_ns = [self._ns(max(0.0, ticks)) for ticks in own]
        total = list(own_ns)
        for index in range(len(nodes) - 1, -1, -1):
            if nodes[index].parent != ROOT:
                total[nodes[index].parent] += total[index]
        return [
            (None, None, None)
            if node.unseen or (node.calls and not node.timed)
            else (
                total[index],
                own_ns[index],
                self._ns(max(0.0, node.self_ticks - own[index])),
            )
            for index, node in enumerate(nodes)
        ]

    def _estimated(self, nodes: list[CallNode]) -> list[tuple[int | None, int | None, int | None]]:
        """Take the calls of a function that were timed for all of them."""
        total: list[float | None] = []
        for node in nodes:
            ticks, calls = self._timed[node.function]
            total.append(None if node.unseen or not calls else ticks / calls * node.calls)
        own = list(total)
        for index, node in enumerate(nodes):
            inside = total[index]
            if node.parent != ROOT and inside is not None:
                mine = own[node.parent]
                own[node.parent] = None if mine is None else mine - inside
        return [
            (
                None if total[index] is None else self._ns(total[index] or 0.0),
                None if own[index] is None else self._ns(max(0.0, own[index] or 0.0)),
                None,
            )
            for index in range(len(nodes))
        ]

    def _ns(self, ticks: float) -> int:
        return round(ticks * self._rate)

    def _function(self, node: CallNode) -> int:
        """Return the function of a node: its hook tells it, or an address inside."""
        is_start = node.hook == proflayout.PROF_CYG
        return self._at(node.function if is_start else node.function - 1)

    def _outside(self, addr: int) -> int:
        return NOBODY if addr in _NO_CALLER else self._at(addr - 1)

    def _at(self, addr: int) -> int:
        image = self._program.image_at(addr)
        if image is None:
            return self._sums.function(ProfFunction("", "?", addr))
        return self._sums.function(self._names.of(image).at(addr - image.load_bias))
