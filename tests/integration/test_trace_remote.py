# SPDX-License-Identifier: Apache-2.0
"""`soscope trace --remote`: what it sees, against what programs count; how they go on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.machines import crossed
from tests.support.machines.crossed import account
from tests.support.machines.gdbstubs import emulator, gdbserver
from tests.support.machines.tools import need
from tests.support.processes.run import kill, run, soscope
from tests.support.targets.build import made_in
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched, waits_in

pytestmark = pytest.mark.shares

_HERE = Path(crossed.__file__).parent
NAMES = "add,eight,half,again,callback,text"
_PAUSE = 34  # the number of pause(2) on x86-64
_MANY = 100  # far more stops than a process needs to come to its calls
EVERYTHING = ("plain", "jumps", "plugins", "threads", "signals", "catches", "forks")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the programs for this machine are."""
    place = tmp_path_factory.mktemp("held")
    compiler = [need("gcc"), "-O1", "-fno-builtin", "-pthread"]
    for name, source in (("calls", "crossed_lib.c"), ("plugin", "crossed_plugin.c")):
        made_in(place, *compiler, "-shared", "-fPIC", "-o", f"lib{name}.so", _HERE / source)
    search = ["-L.", "-Wl,--no-as-needed", "-lcalls", "-Wl,-rpath,$ORIGIN"]
    for name, how in (("crossed", "lazy"), ("held", "now")):
        made_in(place, *compiler, "-o", name, _HERE / f"{name}.c", *search, f"-Wl,-z,{how}")
    return place


def _counted(log: Path) -> dict[str, int]:
    """Return the calls of each function, by a summary document."""
    rows = json.loads(log.read_text())["rows"]
    counts: dict[str, int] = {}
    for row in rows:  # each of one caller
        counts[row["symbol"]] = counts.get(row["symbol"], 0) + row["calls"]
    return counts


def _trace(address: str, log: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    options = ["-c", "--json", "--from", "all", "-l", "libcalls.so", "-e", NAMES]
    return soscope("trace", *options, "-o", log, "--remote", address, *words)


@pytest.mark.parametrize("engine", ["poison", "sites"])
def test_calls_are_those_that_it_counts(folder: Path, tmp_path: Path, engine: str) -> None:
    plain = run([folder / "crossed", *EVERYTHING])
    with gdbserver(folder / "crossed", *EVERYTHING, stdout=subprocess.PIPE) as stub:
        done = _trace(stub.address, tmp_path / "log", "--engine", engine)
        out, _ = stub.process.communicate(timeout=limit())
        err = stub.said()
    assert (done.returncode, out) == (plain.returncode, plain.stdout)
    # the child's comes first
    truth = account(plain.stderr)
    assert truth == account(err)
    if engine == "poison":  # but for those of a handler of SIGSEGV
        truth["callback"] -= 3
    assert ("calls in handlers of SIGSEGV were not seen" in done.stderr) == (engine == "poison")
    assert _counted(tmp_path / "log") == truth
    document = json.loads((tmp_path / "log").read_text())
    assert (document["arch"], document["engine"]) == ("x86-64", engine)
    assert "calls of forked children were not seen" in done.stderr


def test_two_engines_at_once(folder: Path, tmp_path: Path) -> None:
    words = ("plain", "jumps", "plugins", "signals")
    plain = run([folder / "crossed", *words])
    with gdbserver(folder / "crossed", *words, stdout=subprocess.PIPE) as stub:
        done = _trace(stub.address, tmp_path / "log", "--check")
        out, _ = stub.process.communicate(timeout=limit())
        stub.said()
    assert (done.returncode, out) == (plain.returncode, plain.stdout)
    counted = _counted(tmp_path / "log")
    assert counted == account(plain.stderr)
    calls, functions = sum(counted.values()), len(counted)
    expected = f"check: sites and poison agree: {calls} calls of {functions} functions"
    assert done.stderr.splitlines()[-1] == expected


def test_children_are_left_clean(folder: Path, tmp_path: Path) -> None:
    plain = run([folder / "held"])
    with gdbserver(folder / "held", stdout=subprocess.PIPE) as stub:
        done = _trace(stub.address, tmp_path / "log")
        out, _ = stub.process.communicate(timeout=limit())
    assert (done.returncode, out) == (plain.returncode, plain.stdout)
    assert _counted(tmp_path / "log") == account(plain.stderr) == {"add": 4}


@contextmanager
def _ready(folder: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that waits for SIGUSR1, from when it says that it is ready."""
    pipe = subprocess.PIPE
    words = [str(folder / "held"), how]
    process = subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if how == "idle":
            until(waits_in(process.pid, _PAUSE), "it pauses", running=process)
        yield process
    finally:
        kill(process)


@contextmanager
def _tracing(address: str, log: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Trace a stub's program during the block, which waits for the end of that."""
    words = ["trace", "-c", "--json", *options, "-l", "libcalls.so", "-o", str(log)]
    tracing = subprocess.Popen(
        [sys.executable, "-m", "soscope", *words, "--remote", address],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield tracing
        _, said = tracing.communicate(timeout=limit())
        assert tracing.returncode == 0, said
    finally:
        kill(tracing)


def _threads(folder: Path, log: Path, *options: str) -> tuple[int, int]:
    """Trace threads that call; return how many calls were seen, and how many were made."""
    with gdbserver(folder / "held", "threads", stdout=subprocess.PIPE) as stub:
        assert stub.process.stdout is not None
        with _tracing(stub.address, log, *options) as tracing:
            assert stub.process.stdout.readline() == "ready\n"
            if not options:
                until(has_switched(stub.pid, _MANY), "its threads call", running=tracing)
                tracing.send_signal(signal.SIGINT)
        until(has_switched(stub.pid), "its threads go on")
        os.kill(stub.pid, signal.SIGUSR1)
        out = stub.process.stdout.read()
    told = re.fullmatch(r"calls (\d+)\n", out)
    assert told
    return _counted(log).get("add", 0), int(told[1])


def test_threads_go_on(folder: Path, tmp_path: Path) -> None:
    seen, made = _threads(folder, tmp_path / "log")
    assert 0 < seen < made


def test_threads_go_on_when_the_time_is_over(folder: Path, tmp_path: Path) -> None:
    """However late their first calls come: then it takes a longer time."""
    for seconds in (0.3, 3, 30):
        seen, made = _threads(folder, tmp_path / "log", "--duration", f"{seconds}s")
        assert seen < made
        if seen:
            break
    assert seen


def test_an_emulator_that_waits(tmp_path: Path) -> None:
    path = crossed.program(tmp_path, "ppc", "-Wl,-z,lazy")
    plain = crossed.untraced(path, "ppc", "plain", "forks")
    with emulator("ppc", path, "plain", "forks") as stub:
        done = _trace(stub.address, tmp_path / "log", "--", path)
        out, err = stub.process.communicate(timeout=limit())
        assert done.returncode == stub.process.returncode == plain.returncode
    assert (out, err) == (plain.stdout, plain.stderr)
    assert _counted(tmp_path / "log") == account(plain.stderr)


def test_a_program_that_cannot_be_stopped(folder: Path, tmp_path: Path) -> None:
    """Gdbserver stops the group of a process, and this one is not the first of its group."""
    with _ready(folder, "idle") as process:
        with gdbserver("--attach", str(process.pid)) as stub:
            done = _trace(stub.address, tmp_path / "log", "--duration", "0.1s")
            assert done.returncode == 0
            assert "its breakpoints go when it stops by itself" in done.stderr
            process.send_signal(signal.SIGUSR1)
            _, err = process.communicate(timeout=limit())
            assert stub.process.wait(limit()) == 0
        assert (process.returncode, account(err)) == (4, {"add": 1})


def test_soscope_is_killed(folder: Path, tmp_path: Path) -> None:
    with _ready(folder, "threads") as process:
        with gdbserver("--attach", str(process.pid)) as stub:
            words = ["trace", "-l", "libcalls.so", "-o", str(tmp_path / "log")]
            tracing = subprocess.Popen(
                [sys.executable, "-m", "soscope", *words, "--remote", stub.address],
                stderr=subprocess.DEVNULL,
            )
            log = tmp_path / "log"
            calls = "calls in the log"
            until(lambda: log.exists() and log.stat().st_size, calls, running=tracing)
            tracing.kill()
            tracing.wait()
            assert stub.process.wait(limit()) == 0
        process.send_signal(signal.SIGUSR1)
        assert process.wait(limit()) == 4


# ---- what does not work ------------------------------------------------------


def test_a_stub_that_dies(folder: Path, tmp_path: Path) -> None:
    with gdbserver(folder / "held", "threads", stdout=subprocess.PIPE) as stub:
        words = ["-m", "soscope", "trace", "-o", str(tmp_path / "log"), "-l", "libcalls.so"]
        tracing = subprocess.Popen(
            [sys.executable, *words, "--remote", stub.address],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert stub.process.stdout is not None
            assert stub.process.stdout.readline() == "ready\n"
            stub.process.kill()
            _, said = tracing.communicate(timeout=limit())
        finally:
            kill(tracing)
    assert tracing.returncode == 125
    _, last = said.splitlines()  # the first says which engine it was
    assert last.startswith("soscope: error: the stub")


def test_a_program_that_runs_already(folder: Path, tmp_path: Path) -> None:
    with _ready(folder, "threads") as process:
        with gdbserver("--attach", str(process.pid)) as stub:
            with _tracing(stub.address, tmp_path / "log") as tracing:
                until(has_switched(process.pid, _MANY), "its threads call", running=tracing)
                tracing.send_signal(signal.SIGINT)
            assert stub.process.wait(limit()) == 0
        until(has_switched(process.pid), "its threads go on", running=process)
        process.send_signal(signal.SIGUSR1)
        out, _ = process.communicate(timeout=limit())
        assert process.returncode == 4
        told = re.fullmatch(r"calls (\d+)\n", out)
    assert told
    assert 0 < _counted(tmp_path / "log")["add"] < int(told[1])
    assert json.loads((tmp_path / "log").read_text())["engine"] == "sites"


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-p", "1"], "-p PID cannot be combined with --remote"),
        (["-E", "A=1"], "-E is for a command that soscope starts"),
        (["--", "a", "b"], "'b': the program of a stub has its arguments already"),
    ],
)
def test_usage(words: list[str], why: str) -> None:
    done = soscope("trace", "--remote", "localhost:1", *words)
    assert done.returncode in (2, 125)
    assert why in done.stderr
