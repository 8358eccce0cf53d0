# SPDX-License-Identifier: Apache-2.0
"""What `soscope prof check` says of the price of each mode is what was measured."""

from __future__ import annotations

import re

import pytest

from soscope.instruments.prof import check
from soscope.instruments.prof.check import CYG, FENTRY, MCOUNT, PATCHABLE
from soscope.instruments.prof.model import MODE_COUNT, MODE_QUIET
from tests.support.targets.matrix import REPOSITORY

KINDS = {
    MCOUNT: "`-pg`",
    FENTRY: "`-mfentry`",
    CYG: "`-finstrument-functions`",
    PATCHABLE: "`-fpatchable-function-entry=5`",
}
ROW = re.compile(r"\| (.+?) \| (?:[^|]* \| )?\*\*([\d.]+)\*\* ns ")


def test_prices_are_those_of_the_benchmarks() -> None:
    table = (REPOSITORY / "benchmarks" / "RESULTS.md").read_text()
    measured = {what: float(ns) for what, ns in ROW.findall(table)}
    rows = {
        f"{options}, {mode} (mid)": prices[kind]
        for mode, prices in check._NS.items()
        for kind, options in KINDS.items()
    }
    boundary = check._BOUNDARY
    rows["boundary, time"] = boundary[check.BOUNDARY_TIME]
    rows["boundary, count, more than untraced (2.4)"] = boundary[check.BOUNDARY_COUNT]
    found = rows.keys() & measured.keys()
    missing = {"sample": 3, "quiet": 3, "count": 1, "log": 1}  # there are no such rows
    assert len(found) == len(rows) - sum(missing.values())
    for row in found:
        assert rows[row] == pytest.approx(measured[row], rel=0.25), row


def test_prices_without_a_row_are_those_of_the_same_code() -> None:
    quiet, count = check._NS[MODE_QUIET], check._NS[MODE_COUNT]
    assert {*quiet.values()} == {quiet[PATCHABLE]}  # a no-operation is left of all of them
    assert count[CYG] == count[MCOUNT]  # the hook at exits is not called
