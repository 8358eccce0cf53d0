# SPDX-License-Identifier: Apache-2.0
"""What a process has done since a moment, by what /proc says of it: conditions for `until`.

A test that wants calls waits until their process has run, never for a while:

    until(has_run(pid, cpu=0.02), "the program makes calls")
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

Condition = Callable[[], bool]

_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process's threads so far, of those that ended, too."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * _TICK


def has_run(pid: int, *, cpu: float = 0.03) -> Condition:
    """Tell when a process has run for `cpu` more seconds, which are counted in ticks of 10 ms.

    It counts from the first look at the condition.
    """
    return _grown(lambda: cpu_seconds(pid), cpu)


def switches(pid: int) -> int:
    """Return how often the threads of a process have begun to wait by themselves."""
    return sum(
        int(line.split()[1])
        for status in Path(f"/proc/{pid}/task").glob("*/status")
        for line in status.read_text().splitlines()
        if line.startswith("voluntary_ctxt_switches:")
    )


def has_switched(pid: int, times: int = 10) -> Condition:
    """Tell when the threads of a process have begun to wait `times` more times.

    This is for a program that sleeps between its calls: its processor time hardly grows. It
    counts from the first look at the condition.
    """
    return _grown(lambda: switches(pid), times)


def _grown(measure: Callable[[], float], by: float) -> Condition:
    begin: list[float] = []

    def has_grown() -> bool:
        now = measure()
        begin.append(min([now, *begin]))  # a file may be made anew
        return now - begin[-1] >= by

    return has_grown


def state(pid: int, tid: int | None = None) -> str:
    """Return the letter that stands for the state of a thread, see proc_pid_stat(5).

    It is "" if there is no such thread any more.
    """
    try:
        text = Path(f"/proc/{pid}/task/{tid or pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(")")[2].split()[0]


def system_call(pid: int, tid: int | None = None) -> int | None:
    """Return the number of the system call in which a thread waits, None if it waits in none."""
    word = Path(f"/proc/{pid}/task/{tid or pid}/syscall").read_text().split()[0]
    return int(word) if word.lstrip("-").isdigit() else None


def waits_in(pid: int, *numbers: int, tid: int | None = None) -> Condition:
    """Tell when a thread sleeps in one of these system calls."""
    return lambda: state(pid, tid) == "S" and system_call(pid, tid) in numbers


def all_wait(pid: int) -> Condition:
    """Tell when every thread of a process sleeps in a system call, or has ended."""

    def do_wait() -> bool:
        tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
        return all(
            state(pid, tid) == "Z" or (state(pid, tid) == "S" and system_call(pid, tid) is not None)
            for tid in tids
        )

    return do_wait


def reads_input(pid: int) -> Condition:
    """Tell when the first thread of a process waits for what comes in at its descriptor 0."""
    call = Path(f"/proc/{pid}/syscall")
    return lambda: state(pid) == "S" and call.read_text().startswith("0 0x0 ")


def has_grown(path: Path, size: int) -> Condition:
    """Tell when a file, in which a program notes what it does, has `size` more bytes.

    It counts from the first look at the condition.
    """
    return _grown(lambda: path.stat().st_size if path.exists() else 0, size)
