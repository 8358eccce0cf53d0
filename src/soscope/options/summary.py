# SPDX-License-Identifier: Apache-2.0
"""The options of the table of `-c`, which `soscope trace` and `soscope report` share."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.units import parse_count
from soscope.report.trace import tablesettings as names
from soscope.report.trace.tablesettings import TableSettings
from soscope.verbs.options import FLAG, VALUE, Option, Values

_GROUP = "the table of -c"


def parse_column(word: str) -> str:
    """Return the column that a word denotes. Raises UsageError."""
    name = names.ALIASES.get(word.lower(), word.lower())
    if name not in names.COLUMNS:
        raise UsageError(
            f"'{word}' is no column of the table", hint=f"there are {', '.join(names.COLUMNS)}"
        )
    return name


def parse_columns(words: str) -> tuple[str, ...]:
    """Return the columns of a list of words separated by commas. Raises UsageError."""
    columns = tuple(parse_column(word.strip()) for word in words.split(","))
    for column in columns:
        if columns.count(column) > 1:
            raise UsageError(f"the column {column} is named twice")
    return columns


def _parse_top(word: str) -> int:
    """Return a number of rows. Raises UsageError."""
    count = parse_count(word)
    if not count:
        raise UsageError("0 is not a number of rows")
    return count


SUMMARY = [
    Option(
        "--sort",
        dest="sort",
        kind=VALUE,
        metavar="KEY",
        convert=parse_column,
        group=_GROUP,
        help="order of the rows: seconds (usual), total, calls, errors, min, max, name, …",
    ),
    Option(
        "--by",
        dest="by",
        kind=VALUE,
        metavar="WHAT",
        choices=names.GROUPS,
        group=_GROUP,
        help="a row for each symbol, image that is called, or caller and symbol",
    ),
    Option(
        "-U",
        "--columns",
        dest="columns",
        kind=VALUE,
        metavar="COLUMNS",
        default=(),
        convert=parse_columns,
        group=_GROUP,
        help="these columns in this order: -U calls,p99,name",
    ),
    Option(
        "--top",
        dest="top",
        kind=VALUE,
        metavar="N",
        convert=_parse_top,
        group=_GROUP,
        help="the first N rows, and one for the rest",
    ),
    Option(
        "--inclusive",
        dest="inclusive",
        kind=FLAG,
        group=_GROUP,
        help="times with those of nested calls, as ltrace has them",
    ),
    Option(
        "--histogram",
        dest="histogram",
        kind=FLAG,
        group=_GROUP,
        help="how many calls took how long, and percentiles",
    ),
]


# Grouping -> columns that it adds up over, and that the table does not have.
_LACKS = {
    names.BY_SYMBOL: (names.CALLER, names.CALLEE),
    names.BY_IMAGE: (names.CALLER,),
    names.BY_CALLER: (names.CALLEE,),
}


def table_from(values: Values) -> TableSettings:
    """Return the settings of the table. Raises UsageError."""
    by = values.by or ""
    columns, sort = values.columns, values.sort or ""
    for name in (*columns, sort):
        if name in _LACKS.get(by, ()):
            raise UsageError(
                f"--by {by}: a row is of calls with several of the column {name}",
                hint="without --by, -U caller,callee,name has a row for each of them",
            )
    if by == names.BY_IMAGE:  # the name of a row is the image
        columns = tuple(dict.fromkeys(map(_of_image, columns)))
        sort = _of_image(sort)
    return TableSettings(
        sort=sort,
        by=by,
        columns=columns,
        top=values.top,
        inclusive=values.inclusive,
        histogram=values.histogram,
        tree=values.tree and values.summary,
        graph=bool(values.graph or values.svg is not None),
        is_drawn_alone=not values.graph and values.svg is not None,
    )


def _of_image(column: str) -> str:
    return names.CALLEE if column == names.NAME else column


def given(values: Values) -> str | None:
    """Return the first option of the table that was given, None if none was."""
    for option in SUMMARY:
        if option.dest == "top" and values.json.is_markdown:
            continue  # on a page, `top` is about its lists
        if getattr(values, option.dest) != option.default:
            return option.flags[-1]
    return None
