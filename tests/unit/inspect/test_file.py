# SPDX-License-Identifier: Apache-2.0
"""Files that are damaged: said to be, never a crash; and the figures that are quoted."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.errors import FormatError, SoscopeError
from soscope.inspect.doctor import process
from soscope.inspect.doctor.system import costs
from tests.support.targets import build
from tests.support.targets.matrix import REPOSITORY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole() -> bytes:
    """A program as the compiler made it."""
    return build.program("calls").read_bytes()


def assert_examined_or_refused(path: Path, data: bytes) -> None:
    """Any other error is a crash."""
    path.write_bytes(data)
    refusal = "none"
    try:
        assert process.examine_file(str(path)).path == str(path)
    except SoscopeError as error:  # it may have become a script of nothing
        refusal = str(error)
    assert refusal


def test_a_file_that_is_cut_off_is_said(whole: bytes, tmp_path: Path) -> None:
    for size in (*range(1, 64, 7), *range(64, 1200, 61), *range(1200, len(whole), 997)):
        assert_examined_or_refused(tmp_path / "cut", whole[:size])
    (tmp_path / "cut").write_bytes(whole[:100])
    with pytest.raises(FormatError, match="damaged: program headers at offset 0x40"):
        process.examine_file(str(tmp_path / "cut"))


def test_a_zero_ends_the_line_of_a_script(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_bytes(b"#!/bin/sh\0x\necho\n")
    assert os.path.realpath(process.examine_file(str(path)).path) == os.path.realpath("/bin/sh")


@settings(max_examples=50)
@given(st.integers(0, 63) | st.integers(0, 0x1000), st.binary(min_size=1, max_size=8))
def test_a_file_with_other_bytes_in_it_is_no_crash(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, at: int, what: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed"
    assert_examined_or_refused(path, whole[:at] + what + whole[at + len(what) :])


def test_costs_are_about_those_of_the_benchmarks() -> None:
    text = (REPOSITORY / "benchmarks" / "RESULTS.md").read_text()
    names = {
        "soscope trace --count-only": "`--count-only`",
        "soscope trace --entry-only": "entry record",
        "soscope trace -c": "`-c`",
        "soscope trace": "entry and exit, recorded",
    }
    measured = {}
    for cost in costs():
        row = re.search(
            rf"^\| {re.escape(names[cost.command])} \|[^|]*\| \*\*([\d.]+)\*\* ns",
            text,
            re.MULTILINE,
        )
        assert row is not None
        measured[cost.command] = float(row[1])
    # The benchmarks may have run on a slower machine, or on a faster one.
    speed = sum(cost.ns for cost in costs()) / sum(measured.values())
    for cost in costs():
        assert 0.4 <= cost.ns / (measured[cost.command] * speed) <= 2.5
