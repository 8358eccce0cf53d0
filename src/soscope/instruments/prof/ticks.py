# SPDX-License-Identifier: Apache-2.0
"""Makes times of functions from a histogram of program counters."""

from __future__ import annotations

from fractions import Fraction

from soscope.binfmt.profiles import Histogram
from soscope.instruments.prof.model import ProfFunction, Profile
from soscope.instruments.prof.naming import UNKNOWN, ImageFunctions
from soscope.instruments.prof.sums import ArcSums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_UNITS = {"s": 10**9, "m": 10**6, "u": 10**3, "n": 1}  # ns, by the unit's letter in the histogram
_MOST_NAMES = 4  # names in a note


def times_of(
    profile: Profile,
    sums: ArcSums,
    histograms: list[Histogram],
    functions: ImageFunctions,
    vaddr: Callable[[int], int],
) -> dict[int, int] | None:
    """Return self times (ns) by index of function, or None and add a note if not known.

    `vaddr` turns addresses of the histograms into link-time addresses. Ticks of a bin that covers
    several functions are divided by bytes, as gprof does, and a note of `profile` tells how many.
    Ticks outside of known functions belong to one function named UNKNOWN.
    """
    unit = _unit(histograms, profile)
    if unit is None:
        return None
    times: dict[int, tuple[ProfFunction, Fraction]] = {}
    outside = ProfFunction(functions.image, UNKNOWN, path=functions.path)
    shared: dict[str, int] = {}
    total = 0
    for histogram in histograms:
        for number, count in sorted(histogram.ticks.items()):
            start, end = histogram.bin(number)
            at = vaddr(start)
            parts = functions.in_range(at, at + max(end - start, 1))
            named = [part for part in parts if part[2].symbol != UNKNOWN]
            if len(named) > 1:
                names = " and ".join(part[2].symbol for part in named)
                shared[names] = shared.get(names, 0) + count
            size = sum(finish - begin for begin, finish, _ in named)
            for begin, finish, function in named or [(0, 1, _nameless(functions, at, outside))]:
                share = Fraction(count * (finish - begin), size or 1) * unit / histogram.rate
                _, ns = times.get(id(function), (function, Fraction()))
                times[id(function)] = function, ns + share
            total += count
    if not total:
        profile.notes.append(f"no times: no tick fell into {functions.image}")
        return None
    if shared:
        names = ", ".join(sorted(shared, key=lambda each: -shared[each])[:_MOST_NAMES])
        more = ", …" if len(shared) > _MOST_NAMES else ""
        profile.notes.append(
            f"{functions.image}: {sum(shared.values()):,} of {total:,} ticks fell where two "
            f"functions meet, and were shared out between them: {names}{more}"
        )
    return {sums.function(function): round(ns) for function, ns in times.values()}


def put_times(profile: Profile, times: dict[int, int] | None) -> None:
    """Store the result of `times_of` in the sums. A function without ticks has time 0."""
    if times is not None:
        for place, sums in enumerate(profile.sums):
            sums.self_ns = times.get(place, 0)


def _nameless(functions: ImageFunctions, vaddr: int, outside: ProfFunction) -> ProfFunction:
    """Return the function at an address without a symbol, by unwind tables, else `outside`."""
    function = functions.at(vaddr)
    return function if function.size else outside


def _unit(histograms: list[Histogram], profile: Profile) -> int | None:
    """Return the ns of a unit of the histograms, or None and add a note if they have no times."""
    if not histograms:
        return None
    kinds = {(histogram.dimension, histogram.abbreviation) for histogram in histograms}
    rates = {histogram.rate for histogram in histograms}
    dimension, letter = min(kinds)
    unit = _UNITS.get(letter) if len(kinds) == 1 else None
    if unit is None or "sec" not in dimension:
        profile.notes.append(f"no times: the histogram is in {dimension or 'nothing'}, not seconds")
        return None
    if 0 in rates:
        profile.notes.append("no times: the histogram says 0 ticks a second")
        return None
    return unit
