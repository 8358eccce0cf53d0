# SPDX-License-Identifier: Apache-2.0
"""What is alive as a tree of frames: blocks by stack, objects by file, line and type."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable

from soscope.instruments.mem.model import MemReport, NativeRow, Survivor
from soscope.model.stackframe import StackFrame

BLOCKS, OBJECTS = "blocks", "objects"


class FlameNode:
    """A frame with all that was made in it, or below it.

    `label` is short, `about` says more; nodes of one `family` (an image, a file) look alike.
    `children` are by whatever tells them apart.
    """

    __slots__ = ("about", "bytes", "children", "count", "family", "label")

    def __init__(self, label: str, about: str = "", family: str = "") -> None:
        self.label = label
        self.about = about or label
        self.family = family or label
        self.bytes = self.count = 0
        self.children: dict[Hashable, FlameNode] = {}

    def add(self, frames: Iterable[tuple[Hashable, str, str, str]], count: int, size: int) -> None:
        """Add things that were made in these frames, each (key, label, about, family)."""
        node = self
        node.count += count
        node.bytes += size
        for key, label, about, family in frames:
            below = node.children.get(key)
            if below is None:
                below = node.children[key] = FlameNode(label, about, family)
            node = below
            node.count += count
            node.bytes += size

    def all(self) -> Iterable[FlameNode]:
        """Give this node and those below it."""
        rest = [self]
        while rest:
            node = rest.pop()
            rest += node.children.values()
            yield node


def flames_of(report: MemReport) -> dict[str, FlameNode]:
    """Return a tree for BLOCKS, for OBJECTS or for both: of what was recorded."""
    flames = {}
    if report.native_totals is not None:
        flames[BLOCKS] = tree = FlameNode("all blocks and mappings")
        for row in report.native:
            frames = [_of_process(row.pid)] if report.follows else []
            frames += map(_of_frame, reversed(row.frames))
            tree.add([*frames, _leaf(row)], row.count, row.bytes)
    if report.object_totals is not None:
        flames[OBJECTS] = tree = FlameNode("all objects")
        for survivor in report.survivors:
            frames = [_of_process(survivor.pid)] if report.follows else []
            frames += _of_object(survivor, report)
            tree.add(frames, survivor.count, survivor.bytes)
    return flames


_Frame = tuple[Hashable, str, str, str]


def _of_process(pid: int) -> _Frame:
    return pid, f"process {pid}", f"process {pid}", ""


def _leaf(row: NativeRow) -> _Frame:
    return row.api, row.api, row.api, "allocator"


def _of_frame(frame: StackFrame) -> _Frame:
    offset = "" if frame.offset is None else f"+{frame.offset:#x}"
    name = frame.symbol or f"{frame.image or '?'}{offset}"
    label, about = name, name
    if frame.symbol is not None and frame.image is not None:
        about += f"\nin {frame.image}"
    if frame.file is not None:
        label += f" {os.path.basename(frame.file)}:{frame.line}"
        about += f"\n{frame.file}:{frame.line}"
    return (name, frame.image, frame.file, frame.line), label, about, frame.image or ""


def _of_object(row: Survivor, report: MemReport) -> list[_Frame]:
    file = row.file or "no file"
    kind = row.qualname if report.uses_qualname else row.type
    short = "/".join(file.split("/")[-2:])
    where = f"{file}:{row.line}"
    return [
        (file, short, file, file),
        (row.line, f"line {row.line}", where, file),
        (kind, kind, f"{kind}\n{where}", kind),
    ]
