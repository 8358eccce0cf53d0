# SPDX-License-Identifier: Apache-2.0
"""A page of Markdown for any document that --json prints: one fact a line.

Of long lists the first rows are shown, which are the largest ones in all documents, and the rest
is one line. Rows become a table if each row is one fact. Rows with lists become items with items
below them.
"""

from __future__ import annotations

import shlex

from soscope.frames.cppnames import CppNames
from soscope.model.call import StackFrame
from soscope.report.frametext import frame_text
from soscope.report.markdown.nextsteps import steps
from soscope.report.markdown.values import NONE, label, quoted, value_text

MOST = 20  # rows of a list, at most
_FEW = 8  # rows of a list inside of a row
_WORDS = 12  # strings in one line
_SUMMED = ("calls", "errors", "count", "bytes", "self_ns")
_LEFT_OUT = {"schema", "command"}
_FRAME = {"image", "symbol", "file", "line"}  # members of a frame; most have an offset, too
# Titles of sections whose members have names that tell too little.
_TITLES = {
    ("trace-summary", "rows"): "functions, the most time of their own first",
    ("trace-summary", "images"): "images that were not hooked whole",
    ("trace-tree", "rows"): "ways to a function, the longest first",
    ("trace-graph", "edges"): "calls between images, the most time of their own first",
    ("trace-calls", "functions"): "functions, the most time first",
    ("trace-calls", "failed"): "calls that failed",
    ("trace-calls", "slowest"): "slowest calls",
    ("trace-calls", "first"): "first calls",
    ("mem-report", "native"): "native, most bytes first",
    ("mem-report", "survivors"): "survivors, the most first",
    ("prof-report", "functions"): "functions, the largest first",
    ("prof-report", "arcs"): "calls by caller and callee, the largest first",
    ("prof-report", "sampled"): "functions by samples, the most of their own first",
    ("prof-report", "samples"): "sampled stacks, the most first",
    ("prof-tree", "rows"): "ways, the heaviest first",
    ("prof-diff", "rows"): "functions, what has changed most first",
    ("inject", "functions"): "functions with such calls, the most time first",
    ("inject", "failed"): "chosen calls that failed",
    ("inject", "slowest"): "slowest calls of those",
    ("inject", "first"): "first calls of those",
    ("inject-sweep", "sites"): "call sites, the worst first",
}

# Lists that are sorted by a member, unlike in the document.
_LARGEST = {("mem-report", "native"): "bytes"}

Row = dict[str, object]


def page(document: Row, most: int | None = None, recording: str | None = None) -> str:
    """Return the page. It has `most` rows of each list, or MOST if that is None.

    `recording` is the file that the document describes, None if it has no name.
    """
    name = str(document.get("schema", "")).removeprefix("soscope/").partition("/")[0]
    lines = [f"# soscope {name.replace('-', ' ')}", ""]
    command = document.get("command")
    if isinstance(command, list) and command:
        lines.append(f"- command: {quoted(shlex.join(map(str, command)))}")
    sections: list[str] = []
    for key, value in document.items():
        if key not in _LEFT_OUT:
            title = _TITLES.get((name, key), label(key))
            shown = _partly(value) if (name, key) == ("trace-summary", "images") else value
            _member(
                key,
                _ordered(shown, _LARGEST.get((name, key))),
                lines,
                sections,
                most or MOST,
                title,
            )
    if len(lines) == 2:  # the page has no single facts
        lines.pop()
    lines += sections
    commands = steps(document, recording)
    if commands:
        lines += ["", "## Next", "", *[f"- {quoted(step)}" for step in commands]]
    return "\n".join(lines) + "\n"


def _ordered(rows: object, key: str | None) -> object:
    """Return rows sorted by descending `key`, or unchanged if it is None."""
    if key is None or not isinstance(rows, list):
        return rows
    return sorted(rows, key=lambda row: -row[key])


def _partly(images: object) -> list[object]:
    """Return the images that were not hooked completely."""
    return [
        image
        for image in (images if isinstance(images, list) else [])
        if image["not_hooked"] or image["without_room"]
    ]


def _member(
    key: str, value: object, facts: list[str], sections: list[str], most: int, title: str
) -> None:
    """Add one member: a scalar to the facts, and a list of rows as a section."""
    if isinstance(value, dict):
        for name, member in value.items():
            _member(str(name), member, facts, sections, most, f"{title} {label(str(name))}")
    elif not isinstance(value, list):
        if value is not None and value != "":
            is_size = "rss" in title.split() and isinstance(value, int)
            facts.append(f"- {title}: {value_text('bytes' if is_size else key, value)}")
    elif len(value) == 1 and isinstance(value[0], dict) and any(map(_is_long, value[0].values())):
        _member(key, value[0], facts, sections, most, _singular(title))
    elif any(isinstance(item, dict) for item in value):
        rows = [item for item in value if isinstance(item, dict)]
        sections += ["", f"## {_heading(title)} ({len(rows):,})", "", *_rows(rows, most)]
    elif value and key in ("notes", "remarks"):
        sections += ["", f"## {_heading(title)}", "", *[f"- {quoted(str(v))}" for v in value]]
    elif value:
        facts.append(f"- {title}: {_listed(key, value)}")


def _heading(title: str) -> str:
    return title[:1].upper() + title[1:]


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _rows(rows: list[Row], most: int) -> list[str]:
    """Return the lines of rows: a table, or items if rows contain lists."""
    shown, rest = rows[:most], rows[most:]
    if any(_is_long(value) for row in shown for value in row.values()):
        lines = [line for row in shown for line in _item(row, "- ")]
    else:
        lines = _table([_flat(row) for row in shown])
        if rest:
            lines.append("")
    if rest:
        lines.append(f"- and {len(rest):,} more{_sums(rest)}; `--json` has all of them")
    return lines


def _is_long(value: object) -> bool:
    """Return whether a member needs lines of its own."""
    if isinstance(value, dict):
        return any(_is_long(member) for member in value.values())
    if isinstance(value, list) and len(value) == 1 and _is_plain(value[0]):
        return False
    return isinstance(value, list) and (
        len(value) > _WORDS // 3 or any(isinstance(item, dict | list) for item in value)
    )


def _is_plain(value: object) -> bool:
    return isinstance(value, dict) and not any(
        isinstance(member, dict | list) for member in value.values()
    )


def _flat(row: Row) -> Row:
    """Return a row with the members of its objects as members of its own."""
    flat: Row = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat.update({f"{key} {name}": member for name, member in _flat(value).items()})
        elif isinstance(value, list) and len(value) == 1 and _is_plain(value[0]):
            flat.update({f"{_singular(key)} {name}": part for name, part in value[0].items()})
        else:
            flat[key] = value
    return flat


def _table(rows: list[Row]) -> list[str]:
    """Return a table of the columns that are not empty."""
    keys = dict.fromkeys(key for row in rows for key in row)
    empty: tuple[object, ...] = (None, "", False, [])
    columns = [key for key in keys if any(row.get(key) not in empty for row in rows)]
    numbers = {
        key: all(isinstance(row.get(key), int | float | None) for row in rows) for key in columns
    }
    lines = ["| " + " | ".join(map(label, columns)) + " |"]
    lines.append("| " + " | ".join("---:" if numbers[key] else "---" for key in columns) + " |")
    for row in rows:
        cells = [_cell(key, row.get(key)) for key in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cell(key: str, value: object) -> str:
    if isinstance(value, list):
        return _listed(key, value, in_table=True) or NONE
    return value_text(key.rpartition(" ")[2], value, in_table=True)


def _item(row: Row, lead: str) -> list[str]:
    """Return a row as an item: its facts in one line, its lists as items below it."""
    facts: list[str] = []
    below: list[str] = []
    indent = " " * len(lead)
    for key, value in _flat(row).items():
        if isinstance(value, list):
            if not _is_long(value):
                if value:
                    facts.append(f"{label(key)} {_listed(key, value)}")
                continue
            rows = [item for item in value if isinstance(item, dict)]
            if rows and all(row.keys() | {"offset"} == _FRAME | {"offset"} for row in rows):
                below += _stack(label(key), rows, indent)
                continue
            if not rows:
                below.append(f"{indent}- {label(key)}: {_listed(key, value)}")
                continue
            name = _only_member(rows)
            if name is not None:
                names: list[object] = [item[name] for item in rows]
                below.append(f"{indent}- {label(key)} ({len(rows):,}): {_listed(name, names)}")
                continue
            below.append(f"{indent}- {label(key)} ({len(rows):,}):")
            for item in rows[:_FEW]:
                below += _item(item, f"{indent}  - ")
            if len(rows) > _FEW:
                rest = rows[_FEW:]
                below.append(f"{indent}  - and {len(rest):,} more{_sums(rest)}")
        elif value is not None and value != "" and value is not False:
            facts.append(f"{label(key)} {value_text(key.rpartition(' ')[2], value)}")
    return [lead + "; ".join(facts), *below]


def _stack(name: str, frames: list[Row], indent: str) -> list[str]:
    """Return frames as lines, innermost first."""
    # The document's rows have been frames before.
    shown = [StackFrame(**{"offset": None, **frame}) for frame in frames[:_FEW]]  # type: ignore[arg-type]
    names = CppNames()
    named = [quoted(frame_text(frame, names)) for frame in shown]
    lines = [f"{indent}- {name} ({len(frames):,}):", *(f"{indent}  - {text}" for text in named)]
    if len(frames) > _FEW:
        lines.append(f"{indent}  - and {len(frames) - _FEW:,} more")
    return lines


def _only_member(rows: list[Row]) -> str | None:
    """Return the first member's name if rows have no other contents, else None."""
    name = next(iter(rows[0]))
    if any(
        value for row in rows for key, value in row.items() if key != name and value is not False
    ) or any(name not in row or isinstance(row[name], dict | list) for row in rows):
        return None
    return name


def _listed(key: str, values: list[object], *, in_table: bool = False) -> str:
    """Return scalars in one line."""
    shown = [
        quoted(str(value), in_table=in_table)
        if isinstance(value, list | dict)
        else value_text(key, value, in_table=in_table)
        for value in values[:_WORDS]
    ]
    more = f" and {len(values) - _WORDS:,} more" if len(values) > _WORDS else ""
    return ", ".join(shown) + more


def _sums(rows: list[Row]) -> str:
    """Return the sums of rows, for members that can be added."""
    parts = []
    for key in _SUMMED:
        values = [value for row in rows if isinstance(value := row.get(key), int)]
        if values:
            parts.append(f"{label(key)} {value_text(key, sum(values))}")
    return f" ({', '.join(parts)})" if parts else ""
