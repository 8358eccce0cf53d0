# SPDX-License-Identifier: Apache-2.0
"""Write any document of --json as a page of Markdown, with commands to run next."""

from __future__ import annotations

import shlex

from soscope.frames.cppnames import CppNames
from soscope.model.call import PAGE, StackFrame, printable, time_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# Suggestions of the next commands, from a document.
#
# Names in them come from the target, so they are quoted for a shell.

Row = dict[str, object]
_FEW = 4  # functions in one command, at most
_SAMPLED = 987_000_000  # ns that are divided by the frequency to get the period of samples


def steps(document: Row, recording: str | None = None) -> list[str]:
    """Return commands that the user can type, most useful first, [] if there are none.

    `recording` is the file that the document describes.
    """
    name = str(document.get("schema", "")).removeprefix("soscope/").partition("/")[0]
    if name == "mem-report":
        said = _memory(document, recording)
    elif name == "prof-report":
        said = _profile(document, recording)
    elif name in _OF_COMMANDS:
        command = _command(document)
        said = [] if command is None else _OF_COMMANDS[name](document, command)
    else:
        said = _STEPS[name](document) if name in _STEPS else []
    return [step for step in said if step.isprintable()]


def _rows(document: Row, key: str) -> list[Row]:
    value = document.get(key)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _command(document: Row) -> str | None:
    """Return the words behind `--`, None if no command was run that can be typed."""
    command = document.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    return shlex.join(words) if words else None


def _word(value: object) -> str:
    return shlex.quote(str(value))


def _summary(document: Row, command: str) -> list[str]:
    """Return commands that trace the first function, and failures."""
    rows = _rows(document, "rows")
    if not rows:
        return []
    said = [f"soscope trace -T -e {_word(rows[0].get('symbol'))} -- {command}"]
    if any(row.get("errors") for row in rows):
        said.append(f"soscope trace -Z -- {command}")
    return [*said, f"soscope trace --graph -- {command}"]


def _graph(document: Row, command: str) -> list[str]:
    edges = _rows(document, "edges")
    if not edges:
        return []
    ends = f"--from {_word(edges[0].get('caller'))} -l {_word(edges[0].get('callee'))}"
    return [
        f"soscope trace -c {ends} -- {command}",
        f"soscope trace --svg graph.svg -- {command}",
    ]


def _calls(document: Row, command: str) -> list[str]:
    said = [f"soscope trace -Z -- {command}"] if document.get("failed") else []
    return [*said, f"soscope trace -c -- {command}", f"soscope trace --tree -- {command}"]


def _called(document: Row, command: str) -> list[str]:
    called = [row for image in _rows(document, "images") for row in _rows(image, "called")]
    if not called:
        return []
    symbol = _word(called[0].get("symbol"))
    return [f"soscope trace -i -e {symbol} -- {command}"]


def _sweep(document: Row) -> list[str]:
    """Return the command that repeats the worst failure of a sweep."""
    faults = [row for row in _rows(document, "sites") if row.get("kind") != "none"]
    return [str(faults[0].get("repeat"))] if faults else []


def _inject(document: Row, command: str) -> list[str]:
    """Return a sweep of functions that have failed, as their failure values are known."""
    functions = [row for row in _rows(document, "functions") if row.get("errors")]
    if not functions:
        return []
    names = ",".join(dict.fromkeys(str(row.get("function")) for row in functions[:_FEW]))
    return [f"soscope inject --sweep {_word(names)} -- {command}"]


def _memory(document: Row, recording: str | None) -> list[str]:
    """Return commands that show more of a recording, or one that makes a recording."""
    if recording is None:
        if _is_running(document):
            return _of_running(document)
        command = _command(document)
        return [] if command is None else [f"soscope mem run -o mem.sosr -- {command}"]
    path = _word(recording)
    said = [f"soscope mem flame -o mem.svg {path}"]
    if document.get("native"):
        views = ("report --peak", "leaks", "report --temporary")
        said += [f"soscope mem {verb} {path}" for verb in views]
    if document.get("survivors"):
        said.append(f"soscope mem report --by type {path}")
    return said


def _profile(document: Row, recording: str | None) -> list[str]:
    """Return commands that show more of a recording, or one that makes a recording."""
    if recording is None:
        command = _command(document)
        how = "".join(f" {words}" for words in _how(document))
        return [] if command is None else [f"soscope prof run{how} -o prof.sosr -- {command}"]
    path = _word(recording)
    said = [f"soscope prof report --tree {path}", f"soscope prof flame -o prof.html {path}"]
    first = next(iter(_rows(document, "functions") + _rows(document, "sampled")), None)
    if first is None:
        return []
    return [f"soscope prof report --callers {_word(first.get('symbol'))} {path}", *said]


def _how(document: Row) -> list[str]:
    """Return the options with which a profile was made, as far as the document has them."""
    said = [f"--{key} {_word(document[key])}" for key in ("mode", "boundary") if document.get(key)]
    period = document.get("sample_ns")
    if isinstance(period, int) and period > 0:
        said.append(f"--sample {round(_SAMPLED / period)}")
    return said


def _is_running(document: Row) -> bool:
    """Return whether the process goes on: the document is complete, but has no end."""
    end = document.get("exit")
    return (
        document.get("state") == "complete"
        and isinstance(end, dict)
        and not any(value is not None for value in end.values())
    )


def _of_running(document: Row) -> list[str]:
    """Return commands that show the holders of the first known line's objects, and growth."""
    pid = document.get("pid")
    known = (row for row in _rows(document, "survivors") if row.get("file"))
    first = next(known, None)
    said = [f"soscope mem live -p {pid}", f"soscope mem where -p {pid}"]
    if first is None:
        return said
    where = f"{first.get('file')}:{first.get('line')}"
    return [f"soscope mem refs -p {pid} {_word(where)}", *said]


def _where(document: Row) -> list[str]:
    pid, said = document.get("pid"), []
    if document.get("verdict") == "unknown":
        said.append(f"soscope mem where --duration 60s -p {pid}")
    if document.get("trim"):
        said.append(f"soscope mem trim -p {pid}")
    return [*said, f"soscope mem live -p {pid}"]


def _mem_attach(document: Row) -> list[str]:
    recording = document.get("recording")
    if recording is not None:
        return [f"soscope mem report {_word(recording)}"]
    return _process("soscope mem snapshot")(document)


def _map(document: Row) -> list[str]:
    images = _rows(document, "images")
    slots = _rows(images[0], "slots") if len(images) == 1 else []
    if not slots:
        return []
    path, symbol = _word(images[0].get("path")), _word(slots[0].get("symbol"))
    return [f"soscope explain {path} {symbol}", f"soscope check {path}"]


def _process(verb: str) -> Callable[[Row], list[str]]:
    """Return a function that suggests a verb for the same process."""

    def said(document: Row) -> list[str]:
        pid = document.get("pid")
        return [f"{verb} -p {pid}"] if isinstance(pid, int) else []

    return said


# Suggestions for documents of a command, which go on with it, and for all others.
_OF_COMMANDS: dict[str, Callable[[Row, str], list[str]]] = {
    "trace-summary": _summary,
    "trace-tree": lambda _, command: [f"soscope trace --tree -- {command}"],
    "trace-graph": _graph,
    "trace-calls": _calls,
    "called": _called,
    "inject": _inject,
}
_STEPS: dict[str, Callable[[Row], list[str]]] = {
    "inject-sweep": _sweep,
    "mem-attach": _mem_attach,
    "map": _map,
    "process-map": _process("soscope trace -c --duration 10s"),
    "resolve": _process("soscope map"),
    "mem-where": _where,
}


# Values of a document in Markdown. Strings are quoted, as data.
#
# Names and arguments come from the target. Whatever they contain, they are neither markup nor a
# line of their own, and readers can tell them from soscope's words.

NONE = "-"
_LONGEST = 300  # characters of a string, at most
_COUNTED = {
    "calls", "errors", "count", "dropped", "bytes", "beyond", "failed", "returns", "more", "live",
    "created", "destroyed", "allocations", "frees", "peak", "temporary", "objects",
}  # fmt: skip
_BYTES = {"bytes", "size", "given_back", "trim", "in_use", "free", "top"}
_DATES = 10**17  # nanoseconds; more than three years is a time since 1970
_KEPT = {"ns", "us"}


def quoted(text: str, *, in_table: bool = False) -> str:
    """Return text as a code span: one line of data."""
    shown = printable(text)
    if len(shown) > _LONGEST:
        shown = f"{shown[: _LONGEST - 20]}…{shown[-19:]}"
    fence, longest, run = "`", 0, 0
    for letter in shown:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    if not shown or shown[0] in "` " or shown[-1] in "` ":  # Markdown strips one blank per side
        shown = f" {shown} "
    if in_table:  # an unescaped bar always ends a cell
        shown = shown.replace("|", "\\|")
    return f"{fence}{shown}{fence}"


def label(key: str) -> str:
    """Return the label of a member. Values of times and sizes have their units."""
    name = key.removesuffix("_ns") if key.removesuffix("_ns") not in _KEPT else key
    return name.replace("_", " ")


def value_text(key: str, value: object, *, in_table: bool = False) -> str:
    """Return a scalar as text, NONE if it is unknown or missing."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return quoted(value, in_table=in_table)
    if isinstance(value, float):
        if key.startswith("bytes_"):
            return size_text(round(value))
        return f"{value:,.1f}" if key.startswith("count_") else f"{value:.6g}"
    if not isinstance(value, int):
        return quoted(str(value), in_table=in_table)
    if key.endswith("_ns"):
        return time_text(value, PAGE) if abs(value) < _DATES else date_text(value)
    if key in _BYTES or key.endswith("_bytes") or key.startswith("bytes_"):
        return size_text(value)
    is_counted = key.endswith(("_calls", "_count")) or key.startswith("count_")
    return f"{value:,}" if key in _COUNTED or is_counted else str(value)


def date_text(ns: int) -> str:
    """Return a time since 1970 as a date."""
    import datetime as dt

    at = dt.datetime.fromtimestamp(ns / 1e9, dt.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03} UTC"


def size_text(size: int) -> str:
    """Return a number of bytes, and roughly how many GiB, MiB or KiB they are."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(size) >= unit:
            return f"{size:,} bytes ({size / unit:.1f} {name})"
    return f"{size:,} bytes"


# A page of Markdown for any document that --json prints: one fact a line.
#
# If a list is long, its first rows are shown, which are the largest in all documents, and the rest
# is one line. Rows become a table if each row is one fact. Rows with lists become items with items
# below them.

MOST = 20  # rows of a list, at most
_FEW_PAGE = 8  # rows of a list inside of a row
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
        sections += ["", f"## {_heading(title)} ({len(rows):,})", "", *_rows_page(rows, most)]
    elif value and key in ("notes", "remarks"):
        sections += ["", f"## {_heading(title)}", "", *[f"- {quoted(str(v))}" for v in value]]
    elif value:
        facts.append(f"- {title}: {_listed(key, value)}")


def _heading(title: str) -> str:
    return title[:1].upper() + title[1:]


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _rows_page(rows: list[Row], most: int) -> list[str]:
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
            for item in rows[:_FEW_PAGE]:
                below += _item(item, f"{indent}  - ")
            if len(rows) > _FEW_PAGE:
                rest = rows[_FEW_PAGE:]
                below.append(f"{indent}  - and {len(rest):,} more{_sums(rest)}")
        elif value is not None and value != "" and value is not False:
            facts.append(f"{label(key)} {value_text(key.rpartition(' ')[2], value)}")
    return [lead + "; ".join(facts), *below]


def _stack(name: str, frames: list[Row], indent: str) -> list[str]:
    """Return frames as lines, innermost first."""
    # The document's rows have been frames before.
    shown = [StackFrame(**{"offset": None, **frame}) for frame in frames[:_FEW_PAGE]]  # type: ignore[arg-type]
    names = CppNames()
    named = [quoted(names.frame(frame)) for frame in shown]
    lines = [f"{indent}- {name} ({len(frames):,}):", *(f"{indent}  - {text}" for text in named)]
    if len(frames) > _FEW_PAGE:
        lines.append(f"{indent}  - and {len(frames) - _FEW_PAGE:,} more")
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
