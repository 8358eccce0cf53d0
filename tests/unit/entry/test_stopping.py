# SPDX-License-Identifier: Apache-2.0
"""Stops on a machine that pauses: time that nobody could use is no reason to refuse."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from soscope.entry.stopping import Threads
from soscope.entry.tracee import LookingTime

_MANY = """
import sys, threading
for _ in range(3):
    threading.Thread(target=sys.stdin.read, daemon=True).start()
print("ready", flush=True)
while True:
    sum(range(100))
"""


def clock_that_jumps(at_look: int, monotonic: Callable[[], float]) -> Callable[[], float]:
    """Return a clock that is 10 s later from its look number `at_look` on."""
    looks = 0

    def now() -> float:
        nonlocal looks
        looks += 1
        return monotonic() + (10.0 if looks >= at_look else 0.0)

    return now


@pytest.mark.parametrize("at_look", range(1, 12))
def test_a_machine_that_pauses_in_the_middle_of_a_stop(
    at_look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [sys.executable, "-c", _MANY]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        threads = Threads(process.pid)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(time, "monotonic", clock_that_jumps(at_look, time.monotonic))
                threads.stop()
            assert len(threads.stopped) == 4
            threads.resume()
        finally:
            process.kill()


def test_time_goes_on_while_looks_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([100.0, 100.01, 100.03, 200.0, 200.02])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    clock = LookingTime()
    assert [round(clock.now(), 6) for _ in range(5)] == [0.0, 0.01, 0.03, 0.08, 0.1]
