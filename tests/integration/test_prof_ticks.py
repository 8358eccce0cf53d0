# SPDX-License-Identifier: Apache-2.0
"""From ticks to times: bins of one function, of several, of none, and histograms of other units."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.binfmt.profiles import Histogram
from soscope.instruments.prof.gmon import put_times, times_of
from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.names import UNKNOWN, ImageFunctions
from soscope.instruments.prof.views import ArcSums
from tests.support.files import elffiles

TEXT = """\
__asm__(".balign 64; .globl a, b, c; .type a, @function; .type b, @function; .type c, @function;"
        "a: .skip 6, 0x90; .size a, 6; b: .skip 26, 0x90; .size b, 26; .skip 32, 0x90;"
        "c: .skip 8, 0x90; .size c, 8");
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ImageFunctions:
    folder = tmp_path_factory.mktemp("ticks")
    return ImageFunctions(str(elffiles.built(folder, "libt.so", TEXT, "-shared", "-fPIC")))


def _times(
    functions: ImageFunctions,
    ticks: dict[int, int],
    *,
    bins: int = 16,
    rate: int = 100,
    unit: tuple[str, str] = ("seconds", "s"),
    offset: int = 0,
) -> tuple[dict[str, int | None], list[str]]:
    """Return the ns of each function, and the notes, for bins from the start of `a` to 64 bytes."""
    (start,) = (row[0] for row in elffiles.nm(Path(functions.path)) if row[3] == "a")
    histogram = Histogram(start + offset, start + offset + 64, bins, rate, *unit, 0)
    histogram.ticks = ticks
    profile = Profile([])
    sums = ArcSums(profile)
    sums.function(functions.at(start + 64))  # c
    times = times_of(profile, sums, [histogram], functions, lambda addr: addr - offset)
    sums.finish()
    put_times(profile, times)
    rows = zip(profile.functions, profile.sums, strict=True)
    return {function.symbol: row.self_ns for function, row in rows}, profile.notes


def test_bins_of_one_function_and_of_none(functions: ImageFunctions) -> None:
    times, notes = _times(functions, {0: 3, 2: 5, 7: 1, 9: 2})
    assert times == {"a": 30_000_000, "b": 60_000_000, "c": 0, UNKNOWN: 20_000_000}
    assert notes == []


def test_a_bin_of_two_functions_is_shared_out(functions: ImageFunctions) -> None:
    times, notes = _times(functions, {1: 4, 3: 1}, offset=0x7F00_0000_0000)
    assert times == {"a": 20_000_000, "b": 30_000_000, "c": 0}
    (note,) = notes
    assert note.endswith(
        "4 of 5 ticks fell where two functions meet, and were shared out between them: a and b"
    )
    # one bin for all
    times, _ = _times(functions, {0: 32}, bins=1)
    assert times == {"a": 60_000_000, "b": 260_000_000, "c": 0}


@pytest.mark.parametrize(
    ("rate", "unit", "ns"),
    [(1000, ("usec", "u"), 1), (1, ("msec", "m"), 1_000_000), (3, ("seconds", "s"), 333_333_333)],
)
def test_other_units(functions: ImageFunctions, rate: int, unit: tuple[str, str], ns: int) -> None:
    assert _times(functions, {0: 1}, rate=rate, unit=unit)[0]["a"] == ns


@pytest.mark.parametrize(
    ("ticks", "rate", "unit", "said"),
    [
        ({0: 1}, 100, ("cycles", "c"), "in cycles, not seconds"),
        ({0: 1}, 0, ("seconds", "s"), "0 ticks a second"),
        ({}, 100, ("seconds", "s"), "no tick fell into libt.so"),
    ],
)
def test_times_that_are_not_known(
    functions: ImageFunctions, ticks: dict[int, int], rate: int, unit: tuple[str, str], said: str
) -> None:
    times, (note,) = _times(functions, ticks, rate=rate, unit=unit)
    assert times == {"c": None}
    assert said in note
