# SPDX-License-Identifier: Apache-2.0
"""Suggestions of the next commands, from a document.

Names in them come from the target, so they are quoted for a shell.
"""

from __future__ import annotations

import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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
    else:
        make = _STEPS.get(name)
        said = [] if make is None else make(document)
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


def _traced(document: Row, key: str) -> list[str]:
    """Return commands that trace the first of some functions, and failures."""
    command, rows = _command(document), _rows(document, key)
    if command is None or not rows:
        return []
    said = [f"soscope trace -T -e {_word(rows[0].get('symbol'))} -- {command}"]
    if any(row.get("errors") for row in rows):
        said.append(f"soscope trace -Z -- {command}")
    return [*said, f"soscope trace --graph -- {command}"]


def _summary(document: Row) -> list[str]:
    return _traced(document, "rows")


def _tree(document: Row) -> list[str]:
    command = _command(document)
    return [] if command is None else [f"soscope trace --tree -- {command}"]


def _graph(document: Row) -> list[str]:
    command, edges = _command(document), _rows(document, "edges")
    if command is None or not edges:
        return []
    ends = f"--from {_word(edges[0].get('caller'))} -l {_word(edges[0].get('callee'))}"
    return [
        f"soscope trace -c {ends} -- {command}",
        f"soscope trace --svg graph.svg -- {command}",
    ]


def _calls(document: Row) -> list[str]:
    command = _command(document)
    if command is None:
        return []
    said = [f"soscope trace -Z -- {command}"] if document.get("failed") else []
    return [*said, f"soscope trace -c -- {command}", f"soscope trace --tree -- {command}"]


def _called(document: Row) -> list[str]:
    command, images = _command(document), _rows(document, "images")
    called = [row for image in images for row in _rows(image, "called")]
    if command is None or not called:
        return []
    symbol = _word(called[0].get("symbol"))
    return [f"soscope trace -i -e {symbol} -- {command}"]


def _sweep(document: Row) -> list[str]:
    """Return the command that repeats the worst failure of a sweep."""
    faults = [row for row in _rows(document, "sites") if row.get("kind") != "none"]
    return [str(faults[0].get("repeat"))] if faults else []


def _inject(document: Row) -> list[str]:
    """Return a sweep of functions that have failed, as their failure values are known."""
    command = _command(document)
    functions = [row for row in _rows(document, "functions") if row.get("errors")]
    if command is None or not functions:
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
        said += [f"soscope mem {verb} {path}" for verb in ("peak", "leaks", "temporary")]
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
        said.append(f"soscope mem where --for 60s -p {pid}")
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


_STEPS: dict[str, Callable[[Row], list[str]]] = {
    "trace-summary": _summary,
    "trace-tree": _tree,
    "trace-graph": _graph,
    "trace-calls": _calls,
    "called": _called,
    "inject": _inject,
    "inject-sweep": _sweep,
    "mem-attach": _mem_attach,
    "map": _map,
    "process-map": _process("soscope trace -c --duration 10s"),
    "resolve": _process("soscope map"),
    "mem-where": _where,
}
