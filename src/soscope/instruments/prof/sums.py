# SPDX-License-Identifier: Apache-2.0
"""Adds up the arcs of a profile, and from them the numbers of each function."""

from __future__ import annotations

from soscope.instruments.prof.model import NOBODY, ProfArc, ProfFunction, Profile, ProfSums
from soscope.instruments.prof.views import added
from soscope.model.image import TracedImage


class ArcSums:
    """Fills a profile whose calls are known as arcs."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._functions: dict[tuple[str, str, int | str], int] = {}
        self._arcs: dict[tuple[int, int], ProfArc] = {}
        self._overhead: dict[int, int] = {}

    @property
    def callees(self) -> frozenset[int]:
        """Return the indices of all functions whose calls are known so far."""
        return frozenset(callee for _, callee in self._arcs)

    def function(self, function: ProfFunction) -> int:
        """Return the index of a function in the profile. One address is one function."""
        key = function.path, function.image, function.addr or function.symbol
        at = self._functions.get(key)
        if at is None:
            at = self._functions[key] = len(self._profile.functions)
            self._profile.functions.append(function)
        return at

    def image(self, image: TracedImage | None) -> int:
        """Return the index of the entry that stands for all functions of an image."""
        if image is None:
            return NOBODY
        return self.function(ProfFunction(image.label, "", path=image.path))

    def add(
        self,
        caller: int,
        callee: int,
        calls: int | None,
        total_ns: int | None = None,
        self_ns: int | None = None,
        doubt_ns: int | None = None,
        total_doubt_ns: int | None = None,
    ) -> None:
        """Add calls of `callee` by `caller`, which may be NOBODY."""
        arc = self._arcs.get((caller, callee))
        if arc is None:
            self._arcs[caller, callee] = ProfArc(
                caller, callee, calls, total_ns, self_ns, doubt_ns, total_doubt_ns
            )
            return
        arc.calls = _plus(arc.calls, calls)
        arc.total_ns = _plus(arc.total_ns, total_ns)
        arc.self_ns = _plus(arc.self_ns, self_ns)
        # A part of a time is no time, but a part of an error is a lower bound of it.
        arc.doubt_ns = added(arc.doubt_ns, doubt_ns)
        arc.total_doubt_ns = added(arc.total_doubt_ns, total_doubt_ns)

    def add_overhead(self, function: int, ns: int) -> None:
        """Add the overhead that was subtracted from a function's times."""
        self._overhead[function] = self._overhead.get(function, 0) + ns

    def finish(self) -> None:
        """Store the arcs and the sums of all functions in the profile."""
        profile = self._profile
        profile.arcs = list(self._arcs.values())
        sums: dict[int, ProfSums] = {}
        for arc in profile.arcs:
            of = sums.get(arc.callee)
            if of is None:
                of = sums[arc.callee] = ProfSums(arc.calls, arc.total_ns, arc.self_ns)
            else:
                of.calls = _plus(of.calls, arc.calls)
                of.total_ns = _plus(of.total_ns, arc.total_ns)
                of.self_ns = _plus(of.self_ns, arc.self_ns)
            of.doubt_ns = added(of.doubt_ns, arc.doubt_ns)
            profile.calls += arc.calls or 0
        for of in sums.values():
            # The outermost call may end or begin while a call inside it goes on, if a signal
            # handler runs in its hook, or with coroutines.
            if of.total_ns is not None and of.self_ns is not None:
                of.total_ns = max(of.total_ns, of.self_ns)
        for function, ns in self._overhead.items():
            sums[function].overhead_ns = ns
        profile.sums = [sums.get(at, ProfSums()) for at in range(len(profile.functions))]


def _plus(left: int | None, right: int | None) -> int | None:
    """Return the sum, None if one of the two is not known."""
    return None if left is None or right is None else left + right
