# SPDX-License-Identifier: Apache-2.0
"""`-p` for several processes: pids, and names that only one process has."""

from __future__ import annotations

from soscope.errors import AmbiguousError, NoSuchProcess
from soscope.options.process import parse_pid

_MOST_SHOWN = 10  # candidates that are listed
_WIDEST = 80  # letters of each candidate


def parse_processes(text: str) -> list[int]:
    """Return the processes that a word denotes: `12`, `12,34` or `nginx`.

    Raises UsageError, NoSuchProcess if no process has the name, and AmbiguousError if several
    have.
    """
    return [_the_one(word) if _is_name(word) else parse_pid(word) for word in text.split(",")]


def _is_name(word: str) -> bool:
    return word != "" and not word.isdigit() and not word.startswith("-")


def _the_one(name: str) -> int:
    """Return the only process with a name."""
    # Only imported for names, as pids are part of every start.
    from soscope.model.call import printable
    from soscope.proc.status import command_line, processes_named

    pids = processes_named(name)
    if len(pids) == 1:
        return pids[0]
    shown = printable(name)
    if not pids:
        raise NoSuchProcess(f"no process is called '{shown}'")
    error = AmbiguousError(f"{len(pids)} processes are called '{shown}'", tuple(pids))
    lines = [f"-p {pid}  {printable(command_line(pid))[:_WIDEST]}" for pid in pids[:_MOST_SHOWN]]
    if len(pids) > _MOST_SHOWN:
        lines.append(f"and {len(pids) - _MOST_SHOWN} more")
    error.hint = "\n".join([f"all of them: -p {','.join(map(str, pids))}; one of them:", *lines])
    raise error
