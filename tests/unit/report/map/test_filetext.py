# SPDX-License-Identifier: Apache-2.0
"""Tables of what a file says of its linking."""

from __future__ import annotations

from soscope.report.mapfile import _aligned


def test_one_long_name_makes_no_other_line_long() -> None:
    rows = [("0x1", "x" * 100_000, "a"), *[("0x2", "y", "b")] * 100]
    lines = _aligned(("SLOT", "SYMBOL", "PROVIDER"), rows, "")
    assert [line.split() for line in lines[1:]] == [list(row) for row in rows]
    assert max(map(len, (lines[0], *lines[2:]))) < 400


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    lines = _aligned(("SLOT", "SYMBOL"), [("0x1", "malloc"), ("0x1000", "free")], "")
    assert lines == ["SLOT    SYMBOL", "0x1     malloc", "0x1000  free"]
