# SPDX-License-Identifier: Apache-2.0
"""The options for other shapes of a trace than lines: `soscope trace` and `report` share them."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.summary import SUMMARY
from soscope.options.table import Option, Values

_GROUP = "how to show them"
_OF_TREES = {"top"}  # what of the table's options is for sums by way, too

VIEWS = [
    Option(
        "--tree",
        dest="tree",
        group=_GROUP,
        help="calls inside of calls, each with its time; with -c: sums for each way to a call",
    ),
]


def check_views(values: Values) -> None:
    """Raise UsageError for shapes that do not go together."""
    if not values.tree:
        return
    if getattr(values, "count_only", False):
        raise UsageError(
            "--tree and --count-only: counters do not know what a call is inside of",
            hint="--tree -c for sums by way",
        )
    is_summed = values.summary
    if values.json and not is_summed:
        raise UsageError(
            "--tree and --json: an object of JSON Lines says its depth as it is",
            hint="--json for the calls, --tree -c --json for sums by way",
        )
    for option in SUMMARY:
        is_given = getattr(values, option.dest) != option.default
        if is_summed and is_given and option.dest not in _OF_TREES:
            raise UsageError(
                f"{option.flags[-1]}: rows of --tree -c are ways, the longest time first",
                hint="--top N shows N of them; -c without --tree is a table",
            )
