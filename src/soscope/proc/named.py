# SPDX-License-Identifier: Apache-2.0
"""Find processes by name, as `pgrep -x` does: by comm, or by the file that they run."""

from __future__ import annotations

import os

from soscope.proc import status

_DELETED = " (deleted)"


def processes_named(name: str) -> list[int]:
    """Return the ids of the living processes that have this name, sorted, without soscope itself.

    A name is the comm of the process (15 characters, which the process may change), or the last
    part of its program's path.
    """
    pids = []
    for word in os.listdir("/proc"):
        if word.isdigit() and int(word) != os.getpid() and name in _names(word):
            pid = int(word)
            if not status.has_ended(pid):
                pids.append(pid)
    return sorted(pids)


def _names(pid: str) -> list[str]:
    called = comm(int(pid))
    if not called:
        return []  # the process or thread has ended
    names = [called]
    path = status.program_path(int(pid))
    if path:
        names.append(os.path.basename(path.removesuffix(_DELETED)))
    return names


def comm(pid: int) -> str:
    """Return the comm of a process, "" if there is no such process.

    A zombie still has its comm, until its parent has waited for it.
    """
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return os.fsdecode(file.read()).removesuffix("\n")
    except OSError:
        return ""  # its parent has waited for it


def command_line(pid: int) -> str:
    """Return the command line of a process; its program's path if the command line is empty."""
    return " ".join(command_words(pid))


def command_words(pid: int) -> list[str]:
    """Return the words of a process's command line; its program's path if that is empty."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).rstrip("\0")
    except OSError:
        words = ""  # the process or thread has ended
    return (words or status.program_path(pid)).split("\0")
