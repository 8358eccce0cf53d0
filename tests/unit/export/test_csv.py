# SPDX-License-Identifier: Apache-2.0
"""Cells of comma-separated values: a spreadsheet computes nothing of a program's."""

from __future__ import annotations

import csv
import io

import pytest

from soscope.export.csv import _cell


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("malloc", "malloc"),
        ("=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"),
        ('=HYPERLINK("http://x","y")', '\'=HYPERLINK("http://x","y")'),
        ("+1+1", "'+1+1"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-1", "-1"),
        ("-1.5e-07", "-1.5e-07"),
        ("-inf", "-inf"),
        ('-100, "./x", 0', '-100, "./x", 0'),
        ("a\x1b[31m\nb", "a\\x1b[31m\\x0ab"),
    ],
)
def test_a_cell(text: str, shown: str) -> None:
    assert next(csv.reader(io.StringIO(_cell(text)))) == [shown]
