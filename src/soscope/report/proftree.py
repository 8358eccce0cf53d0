# SPDX-License-Identifier: Apache-2.0
"""The call tree of a profile: for people, as soscope/prof-tree/1, and as flame graphs."""

from __future__ import annotations

from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.views import (
    CALLS,
    SAMPLES,
    UNKNOWN,
    Context,
    View,
    added,
    function_name,
    image_name,
    trees_of,
)
from soscope.model.call import PAGE, StackFrame, importance, printable, time_text
from soscope.model.record import Record
from soscope.report import flame as flamepage
from soscope.report.flame import FlameGraph, FlameNode, Frame
from soscope.report.output import json_document, members
from soscope.report.prof import remarks, seconds_text, share_text, untold_functions
from soscope.report.words import Heading, TableText, marked, plural, table_text, with_outer

# A profile as flame graphs: of call paths, of pairs of functions, and of samples, if any.

_NAMES = "a function, file or image"


def flame_document(profile: Profile, *, threads: bool = False) -> str:
    """Return the text of the picture. With `threads` each thread has frames of its own."""
    return flamepage.document(
        _flame_title(profile), _graphs(profile, threads=threads), _said(profile)
    )


def page(profile: Profile, *, threads: bool = False) -> str:
    """Return the HTML page around the picture."""
    graphs = _graphs(profile, threads=threads)
    return flamepage.page(_flame_title(profile), graphs, _said(profile), _NAMES)


def _said(profile: Profile) -> list[str]:
    return [*remarks(profile), *untold_functions(profile)]


def _flame_title(profile: Profile) -> str:
    return " ".join(f"profile of {' '.join(profile.command)}".split())


def _graphs(profile: Profile, *, threads: bool) -> list[FlameGraph]:
    views = trees_of(profile, threads=threads)
    return [_graph(view) for view in views]


def _graph(view: View) -> FlameGraph:
    timed = view.root.self_ns is not None or view.root.total_ns is not None
    root = FlameNode(f"all {view.what}")
    _fill(root, view.root, timed=timed)
    amount = _time_text if timed else _calls_text
    head = plural(root.count, view.what[:-1])
    if timed:
        head += f" of {time_text(root.weight, PAGE)}; the wider a frame, the longer it took"
    elif root.weight:
        head += "; the wider a frame, the more calls were made in it and below it"
    if not view.is_whole:
        head += "; of these the callers are known, and not the ways to them"
    return FlameGraph(root, head, amount, view.what[:-1])


def _time_text(ns: int) -> str:
    return time_text(ns, PAGE)


def _calls_text(count: int) -> str:
    return f"{plural(count, 'call')}, with those inside"


def _fill(root: FlameNode, tree: Context, *, timed: bool) -> None:
    """Copy a tree. A frame is as wide as its own part and the frames below it.

    So no frame is wider than the frame around it, however times were corrected.
    """
    order = [(tree, root)]
    for context, node in order:
        order += [(child, node.below(_frame(child.frame))) for child in context.children.values()]
    weights: dict[int, int] = {}
    for context, node in reversed(order):
        below = sum(weights[id(child)] for child in context.children.values())
        own = 0 if context is tree else _own(context, timed=timed)
        weights[id(context)] = own + below
        node.weight += own + below
        node.count += context.count or 0


def _own(context: Context, *, timed: bool) -> int:
    """Return a function's own part, or all of it if it calls nothing."""
    own = context.self_ns if timed else context.count
    if own is None and timed and not context.children:
        own = context.total_ns
    return max(own or 0, 0)


def _frame(frame: StackFrame) -> Frame:
    name, image = function_name(frame), image_name(frame)
    is_named = bool(frame.symbol) and frame.symbol != UNKNOWN
    label = name if is_named or not image else f"{image} {name}"
    about = f"{label}\nin {image}" if image else label
    if frame.file is not None:
        about += f"\n{frame.file}:{frame.line}"
    return (name, frame.image, frame.file), label, about, image or UNKNOWN


# The rows of a tree: each function below its caller, heaviest first.


class TreeRow(Record):
    """A function on a call path. `above` is the index of the row around it, None if none.

    `weight` is its part of the whole, in nanoseconds, or in calls or samples if nothing was
    timed. `doubt` is the possible error of that, None if it is not known or the weight is exact.
    """

    context: Context
    above: int | None
    depth: int
    weight: int
    doubt: int | None


class TreeRows:
    """All rows of a tree. `whole` is the weight of everything recorded.

    `timed` means that weights are nanoseconds. Rows that are not heavier than their possible
    error come last among their siblings, unless they matter.
    """

    def __init__(self, view: View) -> None:
        root = view.root
        self.view = view
        self.timed = root.self_ns is not None or root.total_ns is not None
        self.whole = root.count or 0
        if self.timed:  # calls around other calls may have no time
            self.whole = max(root.total_ns or 0, root.self_ns or 0)
        weights, doubts = self._weights(root)
        self.rows: list[TreeRow] = []
        rest: list[tuple[Context, int | None, int]] = [(root, None, -1)]
        while rest:
            context, above, depth = rest.pop()
            if context is root:
                place = None
            else:
                place = len(self.rows)
                at = id(context)
                self.rows.append(TreeRow(context, above, depth, weights[at], doubts[at]))
            children = list(context.children.values())
            if len(children) > 1:
                children.sort(
                    key=lambda child: (
                        importance(weights[id(child)], doubts[id(child)], self.whole),
                        *_rank(child, weights[id(child)]),
                    )
                )
            rest += [(child, place, depth + 1) for child in reversed(children)]

    def _weights(self, root: Context) -> tuple[dict[int, int], dict[int, int | None]]:
        """Return the weights of the contexts and their possible errors, by id()."""
        order = [root]
        for context in order:
            order += context.children.values()
        weights: dict[int, int] = {}
        doubts: dict[int, int | None] = {}
        for context in reversed(order):
            children = [id(child) for child in context.children.values()]
            below = sum(weights[child] for child in children)
            doubt_below: int | None = None
            for child in children:
                doubt_below = added(doubt_below, doubts[child])
            weights[id(context)] = self._weight(context, below)
            doubts[id(context)] = self._doubt(context, doubt_below)
        return weights, doubts

    def _doubt(self, context: Context, below: int | None) -> int | None:
        """Return the possible error of a function's weight from `_weight`."""
        if not self.timed:
            return None
        if self.view.is_whole:
            return below if context.total_ns is None else context.total_doubt_ns
        return added(context.doubt_ns, None if self.view.is_inverted else below)

    def _weight(self, context: Context, below: int) -> int:
        """Return the weight of a function whose children have `below` together.

        In a tree of callers, these only have their part of what is above them. Calls whose paths
        are not known may contain each other. Then own times can be added, and total times cannot.
        """
        view = self.view
        adds_up = not view.is_inverted and (view.what == CALLS or not view.is_whole)
        if self.timed and view.is_whole:
            return below if context.total_ns is None else context.total_ns
        own = context.self_ns if self.timed else context.count
        return (own or 0) + (below if adds_up else 0)

    def chosen(self, percent: float, most: int | None) -> list[int]:
        """Return the indices of rows of at least `percent` of the tree, at most `most` of them.

        If `most` is None, there is no such limit. The heaviest rows are chosen, with all rows
        around them. A tree may consist of functions that are a small part of the whole.
        """
        least = sum(row.weight for row in self.rows if row.above is None) * percent / 100
        is_in: list[bool] = []
        for row in self.rows:
            is_in.append(row.weight >= least and (row.above is None or is_in[row.above]))
        heavy = [at for at, is_heavy in enumerate(is_in) if is_heavy]
        if most is None or len(heavy) <= most:
            return heavy
        order = sorted(heavy, key=self._importance)
        return sorted(with_outer(order, lambda at: self.rows[at].above, most))

    def _importance(self, at: int) -> tuple[int, int]:
        row = self.rows[at]
        return importance(row.weight, row.doubt, self.whole), -row.weight


def _rank(context: Context, weight: int) -> tuple[int, int, str, str]:
    frame = context.frame
    return -weight, -(context.count or 0), image_name(frame), frame.symbol or ""


# Call paths of a profile: a tree for people, and the document soscope/prof-tree/1.

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
    return "calls:" if view.is_whole else "calls of which only the callers are known:"


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


def tree_document(
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
            **members(profile, "command state"),
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
        **members(frame, "image symbol"),
        "addr": None if frame.symbol is not None or frame.offset is None else f"{frame.offset:#x}",
        **members(frame, "file line"),
        "calls": context.count if what == CALLS else None,
        "samples": context.count if what == SAMPLES else None,
        **members(context, "total_ns total_doubt_ns self_ns doubt_ns"),
    }
