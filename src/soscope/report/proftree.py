# SPDX-License-Identifier: Apache-2.0
"""Call paths of a profile: a tree for people, and the document soscope/prof-tree/1."""

from __future__ import annotations

from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.views import CALLS, SAMPLES, Context, View, function_name, image_name
from soscope.model.call import printable
from soscope.report.jsontext import json_document
from soscope.report.prof.text import remarks, seconds_text, share_text
from soscope.report.prof.treerows import TreeRow, TreeRows
from soscope.report.tabletext import Heading, TableText, table_text
from soscope.report.words import marked

SCHEMA = "soscope/prof-tree/1"
TREE, CALLERS, CALLEES = "tree", "callers", "callees"
WAYS, ARCS = "ways", "arcs"  # how calls are known: by call paths, or by pairs of functions

ROWS = 100  # rows by default
_INDENT = 2


def text(profile: Profile, views: list[View], percent: float, limit: int | None = None) -> str:
    """Return a table for each tree, and remarks.

    Rows of less than `percent` of their tree are joined in one row at the end, and so are rows
    beyond the `limit` heaviest (beyond ROWS if it is None).
    """
    most = ROWS if limit is None else limit
    trees = [TreeRows(view) for view in views]
    tables = [_table(tree, percent, most) for tree in trees]
    parts = [
        (f"{_title(tree.view)}\n" if len(views) > 1 else "") + table
        for tree, table in zip(trees, tables, strict=True)
    ]
    if not parts:
        parts.append("no ways to functions were recorded\n")
    said = []
    if any(not view.is_whole for view in views):
        said.append("of these calls the callers are known, and not the ways to them")
    said += remarks(profile, has_marks=any(table.has_marks for table in tables))
    lines = "".join(f"{printable(line)}\n" for line in said)
    return "\n".join(parts) + lines


def _title(view: View) -> str:
    if view.what == SAMPLES:
        return "samples:"
    return "calls:" if view.is_whole else "calls of which the callers alone are known:"


def _table(tree: TreeRows, percent: float, most: int) -> TableText:
    what = tree.view.what
    places = tree.chosen(percent, most)
    lines = [_cells(tree, tree.rows[at]) for at in places]
    chosen = set(places)
    rest = [row for at, row in enumerate(tree.rows) if at not in chosen]
    if rest:
        lines.append(_rest(tree, rest))
    headings = [Heading("% time" if tree.timed else f"% {what}", 6)]
    if tree.timed:
        headings += [Heading("total", 11), Heading("seconds", 11)]
    headings += [Heading(what, 9), Heading("image"), Heading("function")]
    root = tree.view.root
    share = share_text(tree.whole, tree.whole)
    times = ["-", seconds_text(root.self_ns)] if tree.timed else []
    whole = [share, *times, _count(root.count), "", "total"]
    return table_text(headings, lines, whole)


def _cells(tree: TreeRows, row: TreeRow) -> list[str]:
    context = row.context
    total = marked(seconds_text(context.total_ns), context.total_ns, context.total_doubt_ns)
    times = [total, _own_text(context)] if tree.timed else []
    name = printable(function_name(context.frame))
    return [
        marked(share_text(row.weight, tree.whole), row.weight, row.doubt),
        *times,
        _count(context.count),
        printable(image_name(context.frame)),
        " " * (_INDENT * row.depth) + name,
    ]


def _own_text(context: Context) -> str:
    return marked(seconds_text(context.self_ns), context.self_ns, context.doubt_ns)


def _rest(tree: TreeRows, rows: list[TreeRow]) -> list[str]:
    """Return the row for hidden rows. Rows that contain each other only have own times."""
    own = Context(tree.view.root.frame)
    for row in rows:
        own.add(None, None, row.context.self_ns, row.context.doubt_ns)
    counts = [row.context.count for row in rows if row.context.count is not None]
    adds_up = tree.view.what == CALLS and not tree.view.is_inverted
    times = ["-", _own_text(own) if adds_up else "-"] if tree.timed else []
    count = _count(sum(counts) if counts and adds_up else None)
    return ["-", *times, count, "", f"({len(rows):,} more)"]


def _count(count: int | None) -> str:
    return "-" if count is None else str(count)


def document(
    profile: Profile, views: list[View], way: str, pattern: str | None = None,
    percent: float = 0, limit: int | None = None,
) -> str:  # fmt: skip
    """Return the document. `way` is TREE, CALLERS or CALLEES, and `pattern` its functions.

    It has the rows of at least `percent` of each tree, and the `limit` heaviest of them, or all
    if it is None.
    """
    rows: list[dict[str, object]] = []
    for view in views:
        tree = TreeRows(view)
        ids = {at: len(rows) + number for number, at in enumerate(tree.chosen(percent, limit))}
        for at, number in ids.items():
            row = tree.rows[at]
            above = None if row.above is None else ids[row.above]
            source = SAMPLES if view.what == SAMPLES else WAYS if view.is_whole else ARCS
            rows.append({"id": number, "above": above, "source": source, **_row(tree, row)})
    return json_document(
        {
            "schema": SCHEMA,
            "command": profile.command,
            "state": profile.state,
            "way": way,
            "function": pattern,
            "rows": rows,
            "notes": profile.notes,
        }
    )


def _row(tree: TreeRows, row: TreeRow) -> dict[str, object]:
    context, what = row.context, tree.view.what
    frame = context.frame
    return {
        "depth": row.depth,
        "image": frame.image,
        "symbol": frame.symbol,
        "addr": None if frame.symbol is not None or frame.offset is None else f"{frame.offset:#x}",
        "file": frame.file,
        "line": frame.line,
        "calls": context.count if what == CALLS else None,
        "samples": context.count if what == SAMPLES else None,
        "total_ns": context.total_ns,
        "total_doubt_ns": context.total_doubt_ns,
        "self_ns": context.self_ns,
        "doubt_ns": context.doubt_ns,
    }
