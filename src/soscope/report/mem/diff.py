# SPDX-License-Identifier: Apache-2.0
"""Growth between two recordings: a table for people, and soscope/mem-diff/1."""

from __future__ import annotations

from soscope.frames.cppnames import CppNames
from soscope.model.call import printable
from soscope.report.jsontext import json_document
from soscope.report.mem.text import ROWS, size_text
from soscope.report.words import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.mem.diff import DiffRow, MemDiff

SCHEMA = "soscope/mem-diff/1"


def document(diff: MemDiff, limit: int | None = None) -> str:
    """Return the JSON document with the first `limit` rows (None for all)."""
    return json_document(
        {
            "schema": SCHEMA,
            "rows": [
                {
                    "file": row.file,
                    "line": row.line,
                    "type": row.type,
                    "count_a": row.count_a,
                    "count_b": row.count_b,
                    "bytes_a": row.bytes_a,
                    "bytes_b": row.bytes_b,
                }
                for row in diff.rows[:limit]
            ],
        }
    )


def text(diff: MemDiff, limit: int | None = None) -> str:
    """Return a table of changes, largest growth first."""
    rows = [row for row in diff.rows if row.growth != (0, 0)]
    most = ROWS if limit is None else limit
    lines = [
        f"{name}: {path}: {count:,} {diff.what} of {size_text(size)}"
        for name, path, (count, size) in zip(
            "AB", diff.paths, (diff.total_a, diff.total_b), strict=True
        )
    ]
    lines.append("")
    if rows:
        lines.append(f"{'growth':>10} {'of bytes':>11} {'in A':>10} {'in B':>10}  made at")
    names = CppNames()
    lines += [_line(row, names) for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"{'':10} … {plural(len(rows) - most, 'more row')}: --limit")
    lines.append(f"{plural(len(diff.rows) - len(rows), 'place')} unchanged")
    return "".join(f"{printable(line)}\n" for line in lines)


def _line(row: DiffRow, names: CppNames) -> str:
    count, size = row.growth
    growth = f"{'-' if size < 0 else '+'}{size_text(abs(size))}" if size else "0 B"
    where = f"{names.place(row.file or '?')}:{row.line}:{row.type}"
    counts = f"{count:>+10,d} {growth:>11} {row.count_a:10,d} {row.count_b:10,d}"
    return f"{counts}  {where}"
