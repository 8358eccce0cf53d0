# SPDX-License-Identifier: Apache-2.0
"""Flame graphs of what no real program has: very many frames, strange names."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from soscope.instruments.mem.model import (
    COMPLETE,
    MemReport,
    NativeRow,
    NativeTotals,
    ObjectTotals,
    Survivor,
)
from soscope.model.call import StackFrame
from soscope.report.flame import LARGEST
from soscope.report.memflame import flame_document, flames_of, page


def of_stacks(*stacks: tuple[int, list[str]]) -> MemReport:
    """Return a report of blocks by (bytes, functions from the outermost on)."""
    report = MemReport(["command"], 1)
    report.state = COMPLETE
    report.native_totals = NativeTotals()
    for size, names in stacks:
        frames = tuple(StackFrame("image", name, 1) for name in reversed(names))
        report.native.append(NativeRow("malloc", 1, size, None, frames, 1))
    return report


def test_stacks_that_begin_alike_share_frames() -> None:
    report = of_stacks((10, ["a", "b"]), (20, ["a", "c"]), (30, ["d"]))
    root = flames_of(report)["blocks"]
    assert {node.label: node.weight for node in root.children.values()} == {"a": 30, "d": 30}
    sums = sorted((node.label, node.weight, node.count) for node in root.all())
    assert [row for row in sums if row[0] in "abcd"] == [
        ("a", 30, 2),
        ("b", 10, 1),
        ("c", 20, 1),
        ("d", 30, 1),
    ]


def test_processes_stand_apart() -> None:
    report = of_stacks((10, ["a"]))
    report.follows = True
    report.native.append(NativeRow("mmap", 1, 5, None, (), 2))
    labels = [node.label for node in flames_of(report)["blocks"].children.values()]
    assert labels == ["process 1", "process 2"]


def test_a_large_graph_stays_small_enough() -> None:
    names = [f"{'a_very_long_name_' * 30}<{number}>" for number in range(60)]
    stacks = [(1000 + at, [f"{at}{name}" for name in names]) for at in range(400)]
    report = of_stacks(*stacks, *((1, [f"small{at}"]) for at in range(5000)))
    for made in (flame_document(report), page(report)):
        assert LARGEST / 4 < len(made.encode()) < 5_000_000
    assert "frames of" in flame_document(report)


def test_strange_names_are_harmless() -> None:
    strange = "<b>&\"'\x07\n\udcff]]></script><!--"
    report = of_stacks((10, [strange]))
    report.command = [strange]
    report.notes = [strange]
    report.object_totals = ObjectTotals(1, 1, None, None)
    report.survivors.append(Survivor(strange, 1, strange, strange, 1, 1, 1))
    tree = ET.fromstring(flame_document(report))
    assert any("script" in "".join(element.itertext()) for element in tree.iter())
    assert page(report).count("</script>") == 1
