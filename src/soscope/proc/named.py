# SPDX-License-Identifier: Apache-2.0
"""Processes by name, as `pgrep -x` finds them: by comm, or by the file that they run."""

from __future__ import annotations

import os

from soscope.proc import status

_DELETED = " (deleted)"


def processes_named(name: str) -> list[int]:
    """Return the living processes that have this name, soscope itself left out, by number.

    A name is what the kernel calls the process (comm: 15 letters, which it may change), or the
    last part of its program's path.
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
        return []  # it has ended
    names = [called]
    path = status.program_path(int(pid))
    if path:
        names.append(os.path.basename(path.removesuffix(_DELETED)))
    return names


def comm(pid: int) -> str:
    """Return what the kernel calls a process, "" where there is none.

    That is there until the process has been waited for.
    """
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return os.fsdecode(file.read()).removesuffix("\n")
    except OSError:
        return ""  # somebody has waited for it


def command_line(pid: int) -> str:
    """Return the words that a process was started with; its program's path where it has none."""
    return " ".join(command_words(pid))


def command_words(pid: int) -> list[str]:
    """Return the same, word by word."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).rstrip("\0")
    except OSError:
        words = ""  # it has ended
    return (words or status.program_path(pid)).split("\0")
