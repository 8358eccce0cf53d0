# SPDX-License-Identifier: Apache-2.0
"""The options that choose a process, and further options of all verbs that have them."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.options.form import format_option
from soscope.options.units import parse_count
from soscope.verbs.options import LIST, ONCE, Option, Values

_MOST = 1 << 31  # range of pid_t

_SHOWN = "how to show it"
JSON = Option("--json", dest="json", group=_SHOWN, help="one JSON document")
FORMAT = format_option(_SHOWN)


def pid_option(*, group: str = "what to look at", about: str = "it is not stopped") -> Option:
    """Return -p. `about` is its help about the process."""
    return Option(
        "-p",
        "--pid",
        dest="pid",
        kind=ONCE,
        metavar="PID",
        convert=parse_pid,
        group=group,
        help=f"the process; {about}" if about else "the process",
    )


def pids_option(*, group: str, about: str) -> Option:
    """Return -p for several processes. Its values are lists of pids."""
    return Option(
        "-p",
        "--pid",
        dest="pids",
        kind=LIST,
        metavar="PID",
        convert=_parse_processes,
        group=group,
        help=about,
    )


def _parse_processes(text: str) -> list[int]:
    from soscope.options.processes import parse_processes  # not needed for a command

    return parse_processes(text)


def parse_pid(text: str) -> int:
    """Return a pid. The process need not exist. Raises UsageError."""
    if "," in text:
        raise UsageError(f"'{text}': one process at a time")
    pid = parse_count(text)
    if not 0 < pid < _MOST:
        raise UsageError(f"{pid} is no process id")
    return pid


def the_pid(values: Values, usage: str) -> int:
    """Return the process of -p. Raises UsageError if there is no -p."""
    if values.pid is None:
        raise UsageError("no process: -p PID is missing", hint=f"usage: {usage}")
    pid: int = values.pid
    return pid
