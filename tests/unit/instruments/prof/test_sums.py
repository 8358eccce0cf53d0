# SPDX-License-Identifier: Apache-2.0
"""Arcs that are added up: each function has all its calls, whichever arc comes first."""

from __future__ import annotations

from itertools import permutations

from soscope.instruments.prof.model import NOBODY, ProfFunction, Profile
from soscope.instruments.prof.views import ArcSums

ARCS = [("main", "mid", 3), ("mid", "leaf", 5), ("main", "leaf", 7), ("mid", "leaf", 11)]


def test_a_function_calls_before_it_is_called() -> None:
    for order in permutations(ARCS):
        profile = Profile([])
        sums = ArcSums(profile)
        functions = {name: ProfFunction("prog", name) for name in ("main", "mid", "leaf")}
        for caller, callee, calls in order:
            sums.add(
                sums.function(functions[caller]), sums.function(functions[callee]), calls, calls, 1
            )
        sums.finish()
        calls_of = {
            function.symbol: row.values()
            for function, row in zip(profile.functions, profile.sums, strict=True)
        }
        assert calls_of["mid"] == (3, 3, 1, None, None)
        assert calls_of["leaf"] == (23, 23, 3, None, None)
        assert calls_of["main"] == (None,) * 5
        assert (profile.calls, len(profile.arcs)) == (26, 3)


def test_a_function_took_no_less_than_its_calls_by_themselves() -> None:
    profile = Profile([])
    sums = ArcSums(profile)
    outer, inner = (sums.function(ProfFunction("lib", name)) for name in ("outer", "inner"))
    sums.add(NOBODY, outer, 1, 10, 10)
    sums.add(outer, inner, 1, 500, 100)
    sums.add(inner, outer, 1, 0, 400)  # of a handler that ran while the first one began
    sums.finish()
    assert [(row.total_ns, row.self_ns) for row in profile.sums] == [(410, 410), (500, 100)]


def test_what_one_arc_does_not_know() -> None:
    profile = Profile([])
    sums = ArcSums(profile)
    leaf = sums.function(ProfFunction("lib", "leaf", 0x10))
    sums.add(NOBODY, leaf, 4, 40, None)
    sums.add(leaf, leaf, None, 50, 5)
    sums.finish()
    (row,) = profile.sums
    assert (row.calls, row.total_ns, row.self_ns) == (None, 90, None)
