# SPDX-License-Identifier: Apache-2.0
"""Sum up the rows of a report by line, type, image or thread, or over time."""

from __future__ import annotations

from soscope.instruments.mem.diff import place_of
from soscope.instruments.mem.model import MemReport

LINE, TYPE, IMAGE, THREAD, TIME = "line", "type", "image", "thread", "time"
OBJECTS, NATIVE = "objects", "native"

Group = dict[str, object]


def groups_of(report: MemReport, way: str) -> list[Group]:
    """Return the groups of a report by LINE, TYPE, IMAGE, THREAD or TIME.

    The groups with most bytes come first, but by TIME the earliest ones.

    Each group has `count` and `bytes` of what is alive. `what` is OBJECTS or NATIVE, and `name`
    is a line, a type or an image. By THREAD a group has `pid`, `thread`, and what the thread
    made, `allocations` and `allocated_bytes`. By TIME it has `begin_ns` and `end_ns`, and what
    was made and freed between them.
    """
    if way == TIME:
        return [
            {
                "begin_ns": begin,
                "end_ns": end,
                "allocations": made,
                "allocated_bytes": made_bytes,
                "frees": freed,
                "freed_bytes": freed_bytes,
            }
            for begin, end, made, made_bytes, freed, freed_bytes in report.rates
        ]
    if way == THREAD:
        rows: list[Group] = [
            {
                "pid": pid,
                "thread": tid,
                "count": round(row[0]),
                "bytes": round(row[1]),
                "allocations": round(row[2]),
                "allocated_bytes": round(row[3]),
            }
            for (pid, tid), row in report.threads.items()
        ]
    else:
        rows = [
            {"what": what, "name": name, "count": count, "bytes": size}
            for (what, name), (count, size) in _named(report, way).items()
        ]
    rows.sort(key=lambda row: (-_number(row["bytes"]), -_number(row["count"]), str(row)))
    return rows


def _named(report: MemReport, way: str) -> dict[tuple[str, str | None], list[int]]:
    sums: dict[tuple[str, str | None], list[int]] = {}

    def add(what: str, name: str | None, count: int, size: int) -> None:
        row = sums.setdefault((what, name), [0, 0])
        row[0] += count
        row[1] += size

    for survivor in report.survivors:
        kind = survivor.qualname if report.uses_qualname else survivor.type
        line = None if survivor.file is None else f"{survivor.file}:{survivor.line}"
        if way != IMAGE:  # an interpreter's code belongs to no image
            add(OBJECTS, line if way == LINE else kind, survivor.count, survivor.bytes)
    for native in report.native:
        if way == TYPE:
            name: str | None = native.api
        elif way == IMAGE:
            name = native.frames[0].image if native.frames else None
        elif native.frames:
            file, number, _ = place_of(native.api, native.frames)
            name = f"{file}:{number}" if number else file
        else:
            name = None
        add(NATIVE, name, native.count, native.bytes)
    return sums


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
