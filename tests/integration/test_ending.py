# SPDX-License-Identifier: Apache-2.0
"""A trace that somebody wants to end, with a ring full of calls that nobody has printed yet."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.processes import attached
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

MOST = 200_000  # calls: fewer than half a second of processor time makes

_NOT_PRINTED = re.compile(
    r"([\d,]+) events dropped: not printed, as a signal ended the trace before"
)


def number(text: str) -> int:
    """Read a number with commas."""
    return int(text.replace(",", ""))


@contextmanager
def busy(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program that calls without a pause, in a process group of its own."""
    process = subprocess.Popen(
        [*map(str, words), build.program("many_calls"), "1" + 12 * "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # a signal has ended it
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("options", [[], ["-k"], ["--json"]], ids="".join)
def test_a_signal_ends_a_trace_before_all_is_printed(options: list[str], tmp_path: Path) -> None:
    path = tmp_path / "calls"
    with busy() as target:
        tracer = subprocess.Popen(
            [*SOSCOPE, *options, "-o", path, "-p", str(target.pid)],
            stderr=subprocess.PIPE,
            text=True,
        )
        attached.wait_for_hooks(tracer, "-o", str(path))
        until(has_run(target.pid, cpu=0.5), "the ring is full", running=tracer)
        tracer.send_signal(signal.SIGINT)
        _, said = tracer.communicate(timeout=limit())
        assert target.poll() is None
    assert tracer.returncode == 0
    found = _NOT_PRINTED.search(said)
    assert found is not None, said
    assert number(found[1]) > MOST
    assert path.stat().st_size
    *_, last = said.splitlines()
    assert last.endswith(" dropped"), last
    assert number(last.split()[-2]) >= number(found[1])


def test_a_command_that_a_signal_ends_is_printed_to_its_end(tmp_path: Path) -> None:
    """Nothing of it is lost, unless the signal comes once more; soscope says so."""
    path = tmp_path / "calls"
    with busy(*SOSCOPE, "-o", path, "--") as tracer:
        until(lambda: path.exists() and path.stat().st_size > 1 << 20, "it calls", running=tracer)
        os.killpg(tracer.pid, signal.SIGINT)  # as a terminal does
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        if "has waited" in said:  # what a program waits for its trace is said meanwhile
            said = tracer.stderr.readline()
        assert re.fullmatch(
            r"soscope: finishing: [\d,]+ calls are left to be printed; Ctrl-C ends that\n", said
        )
        os.killpg(tracer.pid, signal.SIGINT)
        _, said = tracer.communicate(timeout=limit())
        assert tracer.returncode == -signal.SIGINT
    assert _NOT_PRINTED.search(said), said
