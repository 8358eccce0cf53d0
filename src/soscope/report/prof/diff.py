# SPDX-License-Identifier: Apache-2.0
"""Changes between two profiles: a table for people, and soscope/prof-diff/1."""

from __future__ import annotations

from soscope.instruments.prof.views import CALLS, SAMPLES, FlatRow, function_name, image_name
from soscope.model.call import printable
from soscope.report.jsontext import json_document
from soscope.report.markdown.values import time_text
from soscope.report.prof.text import ROWS, seconds_text
from soscope.report.tabletext import Heading, TableText, table_text
from soscope.report.words import marked, plural, untold_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.diff import ProfDiff, ProfDiffRow

SCHEMA = "soscope/prof-diff/1"


def document(diff: ProfDiff, limit: int | None = None) -> str:
    """Return the JSON document with the first `limit` rows (None for all)."""
    return json_document(
        {
            "schema": SCHEMA,
            "what": diff.what,
            "rows": [_member(row, diff.what) for row in diff.rows[:limit]],
            "notes": diff.notes,
        }
    )


def _member(row: ProfDiffRow, what: str) -> dict[str, object]:
    frame = row.frame
    is_nameless = frame.symbol is None and frame.offset is not None
    counted = "samples" if what == SAMPLES else "calls"
    counts = what == CALLS
    said: dict[str, object] = {
        "image": frame.image,
        "symbol": frame.symbol,
        "addr": f"{frame.offset:#x}" if is_nameless else None,
        "file": frame.file,
        "why": row.why or None,
        "change_calls": row.change if counts else None,
        "change_ns": None if counts else row.change,
        "doubt_ns": row.doubt_ns,
    }
    for side, of in (("a", row.a), ("b", row.b)):
        said |= {
            f"{side}_{counted}": None if of is None else of.count,
            f"{side}_self_ns": None if of is None else of.self_ns,
            f"{side}_total_ns": None if of is None else of.total_ns,
            f"{side}_doubt_ns": None if of is None else of.doubt_ns,
        }
    return said


def text(diff: ProfDiff, limit: int | None = None) -> str:
    """Return a table of changes, largest change first."""
    rows = [row for row in diff.rows if row.why]
    most = ROWS if limit is None else limit
    shown = "".join(
        f"{name}: {printable(path)}: {_amount(total, diff.what)}\n"
        for name, path, total in zip("AB", diff.paths, (diff.total_a, diff.total_b), strict=True)
    )
    if rows:
        table = _table(diff, rows, most)
        shown += f"\n{table}"
        if table.has_marks:
            shown += f"{untold_line()}\n"
    same = len(diff.rows) - len(rows)
    return f"{shown}{plural(same, 'function')} unchanged\n" if same else shown


def _amount(total: int, what: str) -> str:
    if what == CALLS:
        return plural(total, "call")
    return f"{time_text(total)} of {'samples' if what == SAMPLES else 'calls'}"


def _table(diff: ProfDiff, rows: list[ProfDiffRow], most: int) -> TableText:
    what = diff.what
    lines = [_cells(row, what) for row in rows[:most]]
    if len(rows) > most:
        change = sum(row.change for row in rows[most:])
        doubt = sum(row.doubt_ns or 0 for row in rows[most:])
        lines.append(_sums(change, doubt, "-", what, f"({len(rows) - most:,} more)"))
    change = diff.total_b - diff.total_a
    whole = _sums(change, None, _percent(change, diff.total_a), what, "total")
    counted = SAMPLES if what == SAMPLES else CALLS
    headings = [Heading("change", 9 if what == CALLS else 12), Heading("%", 7)]
    if what != CALLS:
        headings += [Heading("seconds A", 11), Heading("seconds B", 11)]
    headings += [Heading(f"{counted} A", 9), Heading(f"{counted} B", 9)]
    headings += [Heading("why"), Heading("image"), Heading("function")]
    return table_text(headings, lines, whole)


def _cells(row: ProfDiffRow, what: str) -> list[str]:
    a, b = row.a, row.b
    times = [] if what == CALLS else [_seconds(a), _seconds(b)]
    percent = "-" if a is None or b is None else _percent(row.change, _base(a, what))
    return [
        marked(_change(row.change, what), row.change, row.doubt_ns),
        percent,
        *times,
        _count(a),
        _count(b),
        row.why,
        printable(image_name(row.frame)),
        printable(function_name(row.frame)),
    ]


def _base(row: FlatRow, what: str) -> int:
    return (row.count if what == CALLS else row.self_ns) or 0


def _sums(change: int, doubt_ns: int | None, percent: str, what: str, name: str) -> list[str]:
    """Return a row for several functions."""
    times = [] if what == CALLS else ["-", "-"]
    shown = marked(_change(change, what), change, doubt_ns)
    return [shown, percent, *times, "-", "-", "", "", name]


def _change(change: int, what: str) -> str:
    if what == CALLS:
        return f"{change:+d}" if change else "0"
    return f"{change / 1e9:+.9f}" if change else "0"


def _percent(change: int, before: int) -> str:
    return f"{100 * change / before:+.1f}" if before else "-"


def _seconds(row: FlatRow | None) -> str:
    if row is None:
        return "-"
    return marked(seconds_text(row.self_ns), row.self_ns, row.doubt_ns)


def _count(row: FlatRow | None) -> str:
    return "-" if row is None or row.count is None else str(row.count)
