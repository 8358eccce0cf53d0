# SPDX-License-Identifier: Apache-2.0
"""Line tables: this interpreter's own, and damaged ones; every version's are tested elsewhere."""

from __future__ import annotations

import sys
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from soscope.live.python.lines import LineTable, line_of, line_ranges

VERSIONS = [(3, minor) for minor in range(9, 16)]


def spread(number: int) -> int:
    if number > 0:
        number += 2
    return (
        number
        + abs(
            -number
        )
    )  # fmt: skip


def test_lines_of_a_function() -> None:
    code = spread.__code__
    for start, end, line in code.co_lines():
        for lasti in range(start, end, 2):
            table, first = code.co_linetable, code.co_firstlineno
            assert line_of(table, first, lasti, sys.version_info[:2]) == line


def test_a_frame_that_has_not_begun() -> None:
    for version in VERSIONS:
        assert line_of(b"", 17, -1, version) == 17


def test_an_offset_behind_the_table() -> None:
    assert line_of(bytes([4, 1]), 17, 4, (3, 10)) is None
    assert line_of(bytes([0xD8, 0]), 17, 2, (3, 11)) is None
    assert line_of(bytes([4, 1]), 17, 400, (3, 9)) == 18  # it does not say where it ends


@given(st.binary(max_size=200), st.integers(-1, 500), st.sampled_from(VERSIONS))
def test_any_bytes_are_ranges(table: bytes, lasti: int, version: tuple[int, int]) -> None:
    ranges = list(line_ranges(table, 1, version))
    for before, after in pairwise(ranges):
        assert before[0] < before[1] == after[0]
    line = line_of(table, 1, lasti, version)
    assert LineTable(table, 1, version).line(lasti) == line
    assert line is None or isinstance(line, int)


def test_instructions_in_any_order() -> None:
    code = test_lines_of_a_function.__code__
    ranges = list(line_ranges(code.co_linetable, code.co_firstlineno, sys.version_info[:2]))
    ats = [at for start, end, _ in ranges for at in (start, end - 1)]
    expected = {at: line for start, end, line in ranges for at in range(start, end)}
    for order in (ats, ats[::-1], ats[::2] + ats[1::2]):
        table = LineTable(code.co_linetable, code.co_firstlineno, sys.version_info[:2])
        assert [table.line(at) for at in order] == [expected[at] for at in order]
        assert table.line(ranges[-1][1]) is None
