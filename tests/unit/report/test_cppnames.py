# SPDX-License-Identifier: Apache-2.0
"""Functions of C++ have the names that people write in all that reports say of stacks."""

from __future__ import annotations

import pytest

from soscope.frames.cppnames import CppNames
from soscope.instruments.mem.diff import BLOCKS, MemDiff, MemSide, MemSums
from soscope.instruments.mem.groups import LINE, groups_of
from soscope.instruments.mem.model import COMPLETE, MemReport, NativeRow, NativeTotals
from soscope.live.names.demangle import Demangler, NoDemangler
from soscope.model.call import StackFrame
from soscope.report import mem, memflame

LINKED, WRITTEN = "_ZN2ns3Foo3barEiPKc", "ns::Foo::bar"


@pytest.fixture
def report() -> MemReport:
    """Return a report of one block, made by a function of C++."""
    try:
        Demangler()
    except NoDemangler as reason:
        pytest.skip(str(reason))
    made = MemReport(["command"], 1)
    made.state = COMPLETE
    made.native_totals = NativeTotals()
    frames = (StackFrame("libns.so", LINKED, 0x12), StackFrame("prog", "main", 0x34))
    made.native.append(NativeRow("malloc", 1, 8, None, frames, 1))
    return made


def test_tables_have_them(report: MemReport) -> None:
    shown = mem.text(report)
    assert f"libns.so!{WRITTEN}+0x12\n" in shown
    assert "prog!main+0x34\n" in shown
    lines = mem.text_of(report, LINE, groups_of(report, LINE))
    assert lines.endswith(f"  libns.so!{WRITTEN}\n")
    assert LINKED not in shown + lines


def test_pictures_have_them(report: MemReport) -> None:
    labels = [node.label for node in memflame.flames_of(report)["blocks"].all()]
    assert WRITTEN in labels
    assert LINKED not in memflame.flame_document(report)


def test_comparisons_have_them() -> None:
    sides = [MemSide(name, COMPLETE, []) for name in "ab"]
    for side, count in zip(sides, (1, 3), strict=True):
        side.blocks = MemSums(count)
        side.blocks.add((f"libns.so!{LINKED}", 0, "malloc"), count, 8 * count)
    made = MemDiff(BLOCKS, *sides)
    assert f"libns.so!{WRITTEN}:0:malloc" in mem.diff_text(made)
    assert f"libns.so!{LINKED}" in mem.diff_document(made)


@pytest.mark.parametrize("where", ["/srv/a!b.cc", "libc.so.6!malloc", "prog+0x12", "a!_Zero"])
def test_other_places_stay_what_they_are(where: str) -> None:
    assert CppNames().place(where) == where


def test_an_offset_stays_behind_the_name() -> None:
    assert CppNames().place(f"libns.so!{LINKED}+0x1c") == f"libns.so!{WRITTEN}+0x1c"


def test_without_a_demangler_a_report_says_so(
    report: MemReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soscope.live.names.demangle._LIBRARIES", ("libnone.so",))
    shown = mem.text(report)
    assert f"libns.so!{LINKED}+0x12\n" in shown
    assert "names of C++ stay mangled: C++ names need libnone.so on this machine\n" in shown
