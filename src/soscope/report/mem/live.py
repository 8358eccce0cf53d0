# SPDX-License-Identifier: Apache-2.0
"""Growth in a running process: a table for people, and soscope/mem-live/1."""

from __future__ import annotations

import shlex

from soscope.frames.cppnames import CppNames
from soscope.instruments.mem.diff import BLOCKS, OBJECTS
from soscope.model.call import printable
from soscope.report.jsontext import json_document
from soscope.report.mem.json import frame_member
from soscope.report.mem.text import ROWS, size_text
from soscope.report.words import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.mem.diff import DiffRow
    from soscope.instruments.mem.live import Growth

SCHEMA = "soscope/mem-live/1"

_SLACK = 2 << 20  # bytes by which a process may grow for other reasons than its own blocks
_WHAT = {OBJECTS: "objects", BLOCKS: "new blocks"}


def document(growth: Growth, limit: int | None = None) -> str:
    """Return the JSON document with the first `limit` rows (None for all)."""
    return json_document(
        {
            "schema": SCHEMA,
            "pid": growth.pid,
            "what": growth.what,
            "seconds": round(growth.seconds, 3),
            "rows": [
                {
                    "file": row.file,
                    "line": row.line,
                    "type": row.type,
                    "count": row.count_b,
                    "bytes": row.bytes_b,
                    "count_per_minute": round(growth.per_minute(row.growth[0]), 1),
                    "bytes_per_minute": round(growth.per_minute(row.growth[1]), 1),
                }
                | _stack(growth, row)
                for row in growth.rows[:limit]
            ],
            "notes": growth.notes,
        }
    )


def _stack(growth: Growth, row: DiffRow) -> dict[str, object]:
    """Return the stack that has grown most, if the rows are blocks."""
    if growth.what != BLOCKS:
        return {}
    frames = growth.frames.get((row.file, row.line, row.type), ())
    return {"frames": [frame_member(frame) for frame in frames]}


def text(growth: Growth, limit: int | None = None) -> str:
    """Return a table of changes, largest growth first."""
    most = ROWS if limit is None else limit
    alive = f"{growth.live:,} {_WHAT[growth.what]} of {size_text(growth.live_bytes)}"
    lines = [f"process {growth.pid}: {alive}; changes of {growth.seconds:.1f} s", ""]
    if growth.rows:
        lines.append(f"{'a minute':>10} {'of bytes':>11} {'alive':>10}  made at")
    names = CppNames()
    lines += [_line(row, growth, names) for row in growth.rows[:most]]
    if len(growth.rows) > most:
        lines.append(f"{'':10} … {plural(len(growth.rows) - most, 'more row')}: --limit")
    if not growth.rows:
        lines.append("nothing has grown or shrunk")
    if growth.what == OBJECTS:
        lines += _next_steps(growth)
    return "".join(f"{printable(line)}\n" for line in (*lines, *growth.notes))


def _next_steps(growth: Growth) -> list[str]:
    """Return commands that tell more about what has grown."""
    steps = []
    if growth.resident - growth.grown > max(_SLACK, growth.grown):
        objects = size_text(max(growth.grown, 0))
        sizes = f"RSS grew by {size_text(growth.resident)}, objects by {objects}"
        steps.append(f"{sizes}: soscope mem live --blocks -p {growth.pid}")
    row = growth.rows[0] if growth.rows else None
    if row is not None and row.file is not None and row.line and row.growth[0] > 1:
        attach = "" if growth.goes_on else f"soscope mem attach -p {growth.pid}; "
        place = shlex.quote(f"{row.file}:{row.line}")
        steps.append(f"who holds them: {attach}soscope mem refs -p {growth.pid} {place}")
    return ["", *steps] if steps else []


def _line(row: DiffRow, growth: Growth, names: CppNames) -> str:
    if abs(row.growth[0]) == 1:  # a single thing that comes and goes is no rate
        return _row(f"{row.growth[0]:+d} in all", row.growth[1], row, growth, names)
    count, size = (round(growth.per_minute(change)) for change in row.growth)
    return _row(f"{count:+,d}", size, row, growth, names)


def _row(count: str, size: int, row: DiffRow, growth: Growth, names: CppNames) -> str:
    grown = f"{'-' if size < 0 else '+'}{size_text(abs(size))}" if size else "0 B"
    is_line = row.line or growth.what != BLOCKS
    file = names.place(row.file or "?")
    where = f"{file}:{row.line}:{row.type}" if is_line else f"{file}:{row.type}"
    return f"{count:>10} {grown:>11} {row.count_b:10,d}  {where}"
