# SPDX-License-Identifier: Apache-2.0
"""What a table says of objects of which less is known than usual."""

from __future__ import annotations

from soscope.instruments.mem.model import (
    COMPLETE,
    MemProcess,
    MemReport,
    NativeRow,
    NativeTotals,
    ObjectTotals,
    Survivor,
)
from soscope.report.mem import stats, text


def of_types(*rows: tuple[str, int]) -> MemReport:
    """Return a report of objects by type alone."""
    report = MemReport(["command"], 1)
    report.state = COMPLETE
    report.objects_mode = "types"
    report.object_totals = ObjectTotals(1, 8, None, None)
    for name, count in rows:
        report.survivors.append(Survivor(None, 0, name, f"m.{name}", count, 8 * count, pid=1))
    return report


def test_objects_by_type_alone_have_no_place() -> None:
    report = of_types(("str", 1000), ("Foo", 2))
    lines = text(report).splitlines()
    assert lines[0].endswith(", of 2 types")
    assert lines[1].split() == ["1,000", "7.8", "KiB", "str"]
    assert lines[2].split() == ["2", "16", "B", "Foo"]
    assert text(of_types(("str", 1))).splitlines()[0].endswith(", of 1 type")
    assert stats(report) == "   1000 ?:0:str\n      2 ?:0:Foo\n"


def test_rows_of_several_processes_name_their_own() -> None:
    report = of_types()
    report.objects_mode, report.follows = "exact", True
    report.native_totals = NativeTotals()
    for pid, count in ((7, 3), (8, 2)):
        report.survivors.append(Survivor("a.py", 1, "Foo", "m.Foo", count, 8 * count, pid=pid))
        report.native.append(NativeRow("malloc", 1, 8, None, (), pid))
    alone = text(report)
    assert "[pid" not in alone
    report.processes = [MemProcess(pid, None, ["command"]) for pid in (7, 8)]
    shown = text(report)
    assert "  [pid 7] a.py:1:Foo\n" in shown
    assert "  [pid 8] a.py:1:Foo\n" in shown
    assert "  [pid 8] malloc\n" in shown
    assert stats(report) == "      5 a.py:1:Foo\n"
