# SPDX-License-Identifier: Apache-2.0
"""How long things may take on this machine, and how a test waits for a condition.

A limit only ever ends a test that hangs. It is written in seconds of a machine that starts a
Python interpreter in `_USUAL` seconds, and grows with the time that this machine takes for it:

    def test_it_is_hooked() -> None:
        until(lambda: "hooked" in log.read_text(), "the hook is in the log")
        process.wait(timeout=limit(20))

A wait that ran out raises `RanOut`. The runner takes that, and `subprocess.TimeoutExpired`, for a
stumble: it runs the test again, alone (`tests/support/time/stumbles.py`).
"""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

# Returns the stacks of a hang when so many seconds have run out, "" if there is none. The suite's
# runner puts one here that knows (stumbles.py).
hang: Callable[[float], str] = "".format

USUAL = 60.0  # seconds: what one step of a test may take at most
_UNIT = "SOSCOPE_TEST_UNIT"  # what one process of a run has measured, the others are told
_USUAL = 0.02  # seconds that `python -I -S -c ""` takes on the machine of these numbers
_PAUSE = 0.005  # seconds between two looks at a condition; they grow to ten times that


class RanOut(Exception):  # noqa: N818  what happened is no error of the program's
    """A wait of so many seconds has ended before its condition was true."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what}: not within {seconds:.0f} s")
        self.hang = hang(seconds)  # where everything slept, "" if somebody ran


@functools.cache
def unit() -> float:
    """Return how many seconds this machine takes to start an interpreter: the median of five."""
    if (told := os.environ.get(_UNIT)) is None:
        os.environ[_UNIT] = told = f"{statistics.median(_start() for _ in range(5)):.4f}"
    return float(told)


def _start() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - begin


def limit(seconds: float = USUAL) -> float:
    """Return a time limit: `seconds` of the usual machine, in seconds of this one.

    It is never less than `seconds`: a machine that is quick for a moment stays what it is.
    """
    return seconds * max(1.0, unit() / _USUAL)


def until(
    condition: Callable[[], T | None],
    what: str,
    *,
    running: subprocess.Popen[str] | subprocess.Popen[bytes] | None = None,
    seconds: float = USUAL,
    pause: float = _PAUSE,
) -> T:
    """Wait until `condition()` is true, and return what it returned.

    `what` says in a few words what is waited for: it is what a failed test prints. If `running`
    has ended and the condition is still false, waiting longer is no use: an AssertionError says
    so at once. `RanOut` is raised after `limit(seconds)`. A `pause` of 0.0 looks all the time:
    for what is over in a moment.
    """
    end = time.monotonic() + limit(seconds)
    while True:
        has_ended = running is not None and running.poll() is not None
        if value := condition():
            return value
        assert not has_ended, f"a process has ended with {running and running.returncode}: {what}"
        if time.monotonic() > end:
            raise RanOut(what, limit(seconds))
        time.sleep(pause)
        pause = min(pause * 1.2, 10 * _PAUSE)


@contextmanager
def with_note(text: Callable[[], str]) -> Iterator[None]:
    """Have a failure of the block say `text()`, too, such as the log of who was waited for."""
    try:
        yield
    except (AssertionError, RanOut) as error:
        error.add_note(text())
        raise


@contextmanager
def within_cpu(seconds: float) -> Iterator[None]:
    """Fail where the block takes more than `seconds` of the usual machine's processor time.

    This is for work that would take a multiple if it were done in a wrong way. `seconds` is at
    least five times what it takes: machines differ, and so do their moments.
    """
    begin = time.process_time()
    yield
    spent = time.process_time() - begin
    assert spent <= limit(seconds), f"{spent:.2f} s of processor time, {limit(seconds):.2f} at most"
