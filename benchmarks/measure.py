# SPDX-License-Identifier: Apache-2.0
"""Running commands and handling what came out: figures with their spread."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence


class Failed(Exception):  # noqa: N818  a measurement that did not come about, not an error of ours
    """A command did not do what it should; the row says so."""


class Figure:
    """Values of several rounds: median, least and most."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = list(values)

    @property
    def median(self) -> float:
        """The figure that is compared with what must be reached."""
        return statistics.median(self.values)

    @property
    def least(self) -> float:
        """The best round."""
        return min(self.values)

    @property
    def most(self) -> float:
        """The worst round."""
        return max(self.values)

    def minus(self, *others: Figure) -> Figure:
        """Subtract round by round: what ran in the same round had the same weather."""
        found = self.values
        for other in others:
            found = [a - b for a, b in zip(found, other.values, strict=True)]
        return Figure(found)

    def over(self, other: Figure) -> Figure:
        """Divide round by round."""
        return Figure([a / b for a, b in zip(self.values, other.values, strict=True)])


class Ended:
    """What one run of a command was: output, seconds, peak memory of its largest process.

    `processor` are the seconds that it had a processor for.
    """

    def __init__(
        self, output: str, errors: str, seconds: float, peak_kib: int, processor: float = 0
    ) -> None:
        self.output = output
        self.errors = errors
        self.seconds = seconds
        self.peak_kib = peak_kib
        self.processor = processor


def run(
    command: Sequence[str], *, timeout: float = 300, env: dict[str, str] | None = None
) -> Ended:
    """Run a command to its end; raises Failed where it fails or takes too long."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **env} if env else None,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a session of its own: nobody else is in it
        process.communicate()
        raise Failed(f"not done after {timeout:.0f} s") from None
    if process.returncode:
        last = errors.strip().splitlines()[-1:] or ["no message"]
        raise Failed(f"status {process.returncode}: {last[0]}")
    return Ended(output, errors, time.perf_counter() - start, 0)


# Runs a command from a process of its own: Linux counts the memory of who begins a process as the
# peak of that (exec_mmap, fs/exec.c), and what measures grows with what it has measured.
_BEGINNER = """
import os, sys, time
reads, *command = sys.argv[1:]
null = os.open(os.devnull, os.O_RDWR)
actions = [(os.POSIX_SPAWN_DUP2, null, one) for one in (1, 2)]
actions.append((os.POSIX_SPAWN_OPEN, 0, reads, os.O_RDONLY, 0))
start = time.perf_counter()
pid = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
_, status, usage = os.wait4(pid, 0)
print(time.perf_counter() - start, status, usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
"""


def timed(command: Sequence[str], reads: str = os.devnull) -> Ended:
    """Run a command with as little of our own around it as can be; its output is thrown away.

    Its standard input is the file `reads`.
    """
    beginner = [sys.executable, "-I", "-S", "-c", _BEGINNER, reads, *command]
    told = subprocess.run(beginner, capture_output=True, text=True, check=False)
    if told.returncode:
        raise Failed(f"{command[0]}: {told.stderr.strip().splitlines()[-1]}")
    seconds, status, peak, processor = told.stdout.split()
    if int(status):
        raise Failed(f"{command[0]} ended with {os.waitstatus_to_exitcode(int(status))}")
    return Ended("", "", float(seconds), int(peak), float(processor))


def typical(output: str) -> float:
    """Return the median of the numbers that a workload printed, one for each timed part."""
    numbers = [float(word) for word in output.split()]
    if not numbers:
        raise Failed("the workload printed nothing")
    return statistics.median(numbers)


def rounds(
    count: int, cases: dict[str, Callable[[], float]]
) -> tuple[dict[str, Figure], dict[str, str]]:
    """Run every case once a round, in turn; return figures, and why others have none.

    A case that fails is not tried again, so that every figure has all rounds.
    """
    values: dict[str, list[float]] = {name: [] for name in cases}
    failed: dict[str, str] = {}
    for _ in range(count):
        for name, case in cases.items():
            if name in failed:
                continue
            try:
                values[name].append(case())
            except (Failed, OSError) as error:
                failed[name] = str(error)
    return {name: Figure(of) for name, of in values.items() if name not in failed}, failed
