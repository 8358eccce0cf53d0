# SPDX-License-Identifier: Apache-2.0
"""The line of every instruction of a part of the standard library, as each Python says itself."""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path

import pytest

from soscope.live.python.lines import LineTable, line_of, line_ranges
from tests.support.machines.pythons import pythons
from tests.support.processes.run import run

TARGET = Path(__file__).parents[1] / "targets" / "python_lines.py"
MODULES = (
    "argparse.py",
    "asyncio/base_events.py",
    "asyncio/tasks.py",
    "collections/__init__.py",
    "ctypes/__init__.py",
    "dataclasses.py",
    "difflib.py",
    "email/_header_value_parser.py",
    "enum.py",
    "http/client.py",
    "inspect.py",
    "json/decoder.py",
    "pickle.py",
    "platform.py",
    "pydoc.py",
    "subprocess.py",
    "tarfile.py",
    "threading.py",
    "traceback.py",
    "typing.py",
    "unittest/mock.py",
    "urllib/request.py",
    "zipfile.py",
)


@pytest.mark.every(6)
@pytest.mark.parametrize("python", pythons())
def test_lines_are_those_of_the_interpreter(python: str) -> None:
    said = json.loads(run([python, TARGET, *MODULES]).stdout)
    version = tuple(said["version"])
    assert len(said["rows"]) > 1000
    checked = 0
    for table, first, size, changes in said["rows"]:
        data = bytes.fromhex(table)
        starts = [start for start, _ in changes]
        ranges = [row for row in line_ranges(data, first, version) if row[0] < size]
        lines = {
            lasti: line for start, end, line in ranges for lasti in range(start, min(end, size), 2)
        }
        assert list(lines) == list(range(0, size, 2))  # each instruction, once
        for lasti, line in lines.items():
            at = bisect_right(starts, lasti) - 1
            assert line == (first if at < 0 else changes[at][1]), (python, table, lasti)
        many = LineTable(data, first, version)
        assert {lasti: many.line(lasti) for lasti in lines} == lines
        last = size - 2
        assert line_of(data, first, last, version) == lines[last]
        checked += len(lines)
    assert checked > 100_000
