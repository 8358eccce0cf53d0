# SPDX-License-Identifier: Apache-2.0
"""Flame graphs of what is alive: blocks by stack, objects by file, line and type."""

from __future__ import annotations

import os

from soscope.frames.cppnames import CppNames
from soscope.instruments.mem.model import MemReport, NativeRow, Survivor
from soscope.model.call import StackFrame
from soscope.report import flame as flamepage
from soscope.report.flame import FlameGraph, FlameNode, Frame
from soscope.report.mem import size_text, state_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


FLAME_BLOCKS, FLAME_OBJECTS = "blocks", "objects"


def flame_document(report: MemReport) -> str:
    """Return the text of the picture."""
    return flamepage.document(_title(report), _graphs(report), _notes(report))


def page(report: MemReport) -> str:
    """Return the HTML page around the picture."""
    names = "a function, file or type"
    return flamepage.page(_title(report), _graphs(report), _notes(report), names)


def _title(report: MemReport) -> str:
    return " ".join(f"alive at the end of {' '.join(report.command)}".split())


def _notes(report: MemReport) -> list[str]:
    return [*state_lines(report), *report.notes]


def _graphs(report: MemReport) -> list[FlameGraph]:
    graphs = []
    for what, root in flames_of(report).items():
        head = f"{what}: {root.count:,} of {size_text(root.weight)}"
        if root.weight:
            head += "; the wider a frame, the more bytes were made in it and below it"
        graphs.append(FlameGraph(root, head, size_text, what[:-1]))
    return graphs


def flames_of(report: MemReport) -> dict[str, FlameNode]:
    """Return a tree for BLOCKS, for OBJECTS or for both, as far as recorded."""
    flames = {}
    if report.native_totals is not None:
        flames[FLAME_BLOCKS] = tree = FlameNode("all blocks and mappings")
        names = CppNames()
        for row in report.native:
            frames = [_of_process(row.pid)] if report.follows else []
            frames += [_of_frame(frame, names) for frame in reversed(row.frames)]
            tree.add([*frames, _leaf(row)], row.count, row.bytes)
    if report.object_totals is not None:
        flames[FLAME_OBJECTS] = tree = FlameNode("all objects")
        for survivor in report.survivors:
            frames = [_of_process(survivor.pid)] if report.follows else []
            frames += _of_object(survivor, report)
            tree.add(frames, survivor.count, survivor.bytes)
    return flames


def _of_process(pid: int) -> Frame:
    return pid, f"process {pid}", f"process {pid}", ""


def _leaf(row: NativeRow) -> Frame:
    return row.api, row.api, row.api, "allocator"


def _of_frame(frame: StackFrame, names: CppNames) -> Frame:
    offset = "" if frame.offset is None else f"+{frame.offset:#x}"
    name = frame.symbol or f"{frame.image or '?'}{offset}"
    label = about = name if frame.symbol is None else names.short(frame.symbol)
    if frame.symbol is not None and frame.image is not None:
        about += f"\nin {frame.image}"
    if frame.file is not None:
        label += f" {os.path.basename(frame.file)}:{frame.line}"
        about += f"\n{frame.file}:{frame.line}"
    return (name, frame.image, frame.file, frame.line), label, about, frame.image or ""


def _of_object(row: Survivor, report: MemReport) -> list[Frame]:
    file = row.file or "no file"
    kind = row.qualname if report.uses_qualname else row.type
    short = "/".join(file.split("/")[-2:])
    where = f"{file}:{row.line}"
    return [
        (file, short, file, file),
        (row.line, f"line {row.line}", where, file),
        (kind, kind, f"{kind}\n{where}", kind),
    ]
