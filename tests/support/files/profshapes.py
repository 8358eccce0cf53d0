# SPDX-License-Identifier: Apache-2.0
"""Profiles by hand: trees of calls and stacks of samples from a few words."""

from __future__ import annotations

from soscope.instruments.prof.model import (
    MODE_TIME,
    NOBODY,
    ProfArc,
    ProfFunction,
    Profile,
    ProfNode,
    ProfSample,
    ProfSums,
    ProfThread,
)
from soscope.model.call import StackFrame

# names from the outermost on, calls, nanoseconds in the last one alone
Way = tuple[tuple[str, ...], int, int]


class Shape:
    """A profile that grows; functions are named IMAGE!SYMBOL, or SYMBOL of image `lib.so`."""

    def __init__(self) -> None:
        self.profile = Profile(["program", "word"], status=0, mode=MODE_TIME)
        self.profile.threads.append(ProfThread(10, 10, "main"))
        self._places: dict[str, int] = {}

    def function(self, name: str) -> int:
        """Return the place of a function, which is made where there is none."""
        if name not in self._places:
            image, _, symbol = name.rpartition("!")
            self._places[name] = len(self.profile.functions)
            addr = 0x1000 + 0x10 * len(self._places)
            self.profile.functions.append(ProfFunction(image or "lib.so", symbol, addr, 16))
            self.profile.sums.append(ProfSums())
        return self._places[name]

    def sums(
        self,
        name: str,
        calls: int | None,
        total_ns: int | None = None,
        self_ns: int | None = None,
        overhead_ns: int | None = None,
    ) -> None:
        """Say what is known of a function."""
        at = self.function(name)
        self.profile.sums[at] = ProfSums(calls, total_ns, self_ns, overhead_ns)
        self.profile.calls += calls or 0

    def arc(
        self,
        caller: str | None,
        callee: str,
        calls: int,
        total_ns: int | None = None,
        self_ns: int | None = None,
    ) -> None:
        """Add calls of one function by another, None: nobody knows which."""
        above = NOBODY if caller is None else self.function(caller)
        self.profile.arcs.append(ProfArc(above, self.function(callee), calls, total_ns, self_ns))

    def ways(self, ways: list[Way], *, thread: int = 0, timed: bool = True) -> None:
        """Add a thread's tree: all its ways, those that lead to others first."""
        places: dict[tuple[str, ...], int] = {}
        for way, calls, own in ways:
            total = sum(ns for other, _, ns in ways if other[: len(way)] == way)
            above = places[way[:-1]] if len(way) > 1 else NOBODY
            places[way] = len(self.profile.nodes)
            node = ProfNode(above, self.function(way[-1]), thread, calls, None, None)
            if timed:
                node.total_ns, node.self_ns = total, own
            self.profile.nodes.append(node)

    def sample(self, *names: str, weight: int = 1, thread: int = 0) -> None:
        """Add samples of a stack, the outermost function first; FILE:LINE:NAME is Python's."""
        self.profile.sample_ns = 1_000_000
        frames = []
        for name in reversed(names):
            file, colon, rest = name.partition(":")
            if colon:
                line, _, symbol = rest.partition(":")
                frames.append(StackFrame(None, symbol, None, file, int(line)))
            else:
                image, _, symbol = name.rpartition("!")
                frames.append(StackFrame(image or "lib.so", symbol, 0x10))
        self.profile.samples.append(ProfSample(thread, tuple(frames), weight))

    def thread(self, tid: int, name: str = "") -> int:
        """Add a thread; return its place."""
        self.profile.threads.append(ProfThread(10, tid, name))
        return len(self.profile.threads) - 1
