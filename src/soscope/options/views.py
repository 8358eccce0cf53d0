# SPDX-License-Identifier: Apache-2.0
"""The options for other forms of a trace than lines, for `soscope trace` and `report`."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.summary import SUMMARY
from soscope.verbs.options import VALUE, Option, Values

_GROUP = "how to show them"
_FOR_ALL = {"top"}  # options of the table that also apply to call paths and images

VIEWS = [
    Option(
        "--tree",
        dest="tree",
        group=_GROUP,
        help="calls inside of calls, each with its time; with -c: sums for each way to a call",
    ),
    Option(
        "--graph",
        dest="graph",
        group=_GROUP,
        rivals="mode",
        help="at the end: which image calls which, how often and for how long",
    ),
    Option(
        "--svg",
        dest="svg",
        kind=VALUE,
        metavar="FILE",
        group=_GROUP,
        help="that graph as a picture; without --graph, no text of it",
    ),
]


def check_views(values: Values) -> None:
    """Raise UsageError for forms that cannot be combined."""
    _check_graph(values)
    if not values.tree:
        return
    if getattr(values, "count_only", False):
        raise UsageError(
            "--tree and --count-only: counters do not know what a call is inside of",
            hint="--tree -c for sums by way",
        )
    is_summed = values.summary
    if values.json.is_markdown and not is_summed:
        raise UsageError(
            "--tree and --format md: a page has sums, and not each call",
            hint="--tree for the calls, --tree -c --format md for sums by way",
        )
    if values.json and not is_summed:
        raise UsageError(
            "--tree and --json: an object of JSON Lines says its depth as it is",
            hint="--json for the calls, --tree -c --json for sums by way",
        )
    if is_summed:
        _check_table(values, "rows of --tree -c are ways, the longest time first")


def _check_graph(values: Values) -> None:
    """Raise UsageError for options that cannot be combined with a graph.

    A graph is made from the same data as a table.
    """
    if not is_graph(values):
        return
    for option in ("summary", "both", "count_only", "entry_only", "tree"):
        if getattr(values, option, False):
            raise UsageError(
                f"{graph_option(values)} is a view of its own",
                hint="--record FILE, then each of them by soscope report",
            )
    _check_table(values, "rows of --graph are pairs of images, the most time of their own first")


def is_graph(values: Values) -> bool:
    """Return whether the graph was asked for, as text or as a picture."""
    return bool(graph_option(values))


def graph_option(values: Values) -> str:
    """Return the option that asks for a graph, "" if there is none."""
    if values.graph:
        return "--graph"
    return "" if values.svg is None else "--svg"


def _check_table(values: Values, why: str) -> None:
    for option in SUMMARY:
        if getattr(values, option.dest) != option.default and option.dest not in _FOR_ALL:
            raise UsageError(
                f"{option.flags[-1]}: {why}",
                hint="--top N shows N of them; -c alone is a table",
            )
