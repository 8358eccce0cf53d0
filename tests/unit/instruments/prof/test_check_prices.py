# SPDX-License-Identifier: Apache-2.0
"""What `soscope prof check` says of the price of each mode is what was measured."""

from __future__ import annotations

import re

import pytest

from soscope.instruments.prof.check import modes
from soscope.instruments.prof.check.hooks import CYG, FENTRY, MCOUNT, PATCHABLE
from tests.support.matrix import REPOSITORY

KINDS = {
    MCOUNT: "`-pg`",
    FENTRY: "`-mfentry`",
    CYG: "`-finstrument-functions`",
    PATCHABLE: "`-fpatchable-function-entry=5`",
}
ROW = re.compile(r"\| (.+?) \| [^|]* \| \*\*([\d.]+)\*\* ns ")


def test_prices_are_those_of_the_benchmarks() -> None:
    table = (REPOSITORY / "benchmarks" / "RESULTS.md").read_text()
    measured = {what: float(ns) for what, ns in ROW.findall(table)}
    rows = {
        f"{options}, {mode} (mid)": prices[kind]
        for mode, prices in modes._NS.items()
        for kind, options in KINDS.items()
    }
    rows |= {name.replace(" ", ", "): price for name, price in modes._BOUNDARY.items()}
    found = rows.keys() & measured.keys()
    missing = {"sample": 3, "quiet": 1, "log": 1}  # there are no such rows
    assert len(found) == len(rows) - sum(missing.values())
    for row in found:
        assert rows[row] == pytest.approx(measured[row], rel=0.25), row
