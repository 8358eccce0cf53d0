# SPDX-License-Identifier: Apache-2.0
"""Threads of programs for other processors: what soscope sees, against what they count."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machines.crossed import account, sysroot, threaded, untraced
from tests.support.processes.run import kill, run, soscope
from tests.support.time.patience import limit

pytestmark = pytest.mark.shares

NO_PTRACE = """
import sys
from soscope.entry import ptrace
def refused(tid, options):
    raise PermissionError(1, "Operation not permitted")
ptrace.seize = refused
from soscope.verbs.main import main
sys.exit(main())
"""

# Threads stand still for a breakpoint when the first one is about to end the program.
ENDS_IN_PAUSE = """
import sys
from soscope.entry.remote.qemu import StopSerializer
from tests.support.time.patience import until
SLEEPS = 230  # clock_nanosleep(2)
stopped = StopSerializer.has_stopped
def has_stopped(self):
    stopped(self)
    first = self._threads.get(self._pid)
    if first is None or first is self._inside or self.is_ending:
        return
    if self._ends(first) or (self._call_of(first) or (-1,))[0] == SLEEPS:
        until(lambda: self._pump() or self._ends(first), "the program ends")
        self._is_blocked = lambda thread: False
        self.pause()
        print("paused at the end", file=sys.stderr)
StopSerializer.has_stopped = has_stopped
from soscope.verbs.main import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the programs of this module are built."""
    return tmp_path_factory.mktemp("threaded")


def _built(folder: Path, arch: str) -> Path:
    place = folder / arch
    if not place.exists():
        place.mkdir()
        threaded(place, arch)
    return place / "crossed_threads"


def _options(log: Path, arch: str) -> list[str | Path]:
    names = "together,through"
    return ["-c", "--json", "-o", log, "-e", names, "--sysroot", sysroot(arch), "--"]


def _traced(folder: Path, log: Path, arch: str, *words: str) -> tuple[dict[str, int], str]:
    """Trace a program; return the calls that were seen, and soscope's notes."""
    path = _built(folder, arch)
    done = soscope("trace", *_options(log, arch), path, *words)
    plain = untraced(path, arch, *words)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    document = json.loads(log.read_text())
    seen = {row["symbol"]: row["calls"] for row in document["rows"] if row["calls"]}
    own = {name: count for name, count in account(done.stderr).items() if count}
    if words[0] not in ("exits", "leaves", "dies", "executes"):
        assert seen == own
        assert own == {name: count for name, count in account(plain.stderr).items() if count}
    return seen, done.stderr


@pytest.mark.every(3)
@pytest.mark.parametrize("arch", ["ppc64le", "aarch64", "arm", "riscv64", "mips"])
def test_calls_of_threads_at_once(folder: Path, tmp_path: Path, arch: str) -> None:
    """Their first call is the same one, and another thread never waits for anything."""
    seen, notes = _traced(folder, tmp_path / "log", arch, "race", "10")
    assert seen == {"together": 4 * 10 + 1}
    assert "not complete" not in notes


def test_threads_that_end_inside_of_calls(folder: Path, tmp_path: Path) -> None:
    seen, notes = _traced(folder, tmp_path / "log", "aarch64", "ends")
    assert seen == {"through": 4 * 4 + 4, "together": 1}
    assert "not complete" not in notes


def test_the_first_thread_ends_before_the_others(folder: Path, tmp_path: Path) -> None:
    """Nobody is told that it has ended before all of them have."""
    seen, notes = _traced(folder, tmp_path / "log", "ppc64le", "last", "10")
    assert seen == {"together": 4 * 10}
    assert "not complete" not in notes


def test_signals_for_threads_that_wait(folder: Path, tmp_path: Path) -> None:
    seen, _ = _traced(folder, tmp_path / "log", "ppc64le", "signals", "5")
    assert seen == {"together": 20}


def test_children_of_programs_with_threads(folder: Path, tmp_path: Path) -> None:
    """Calls of other threads are seen meanwhile, and the child's are not."""
    seen, notes = _traced(folder, tmp_path / "log", "arm", "forks", "30")
    assert seen == {"together": 4 * 30}
    assert "calls of forked children were not seen" in notes


@pytest.mark.every(2)
@pytest.mark.parametrize("how", ["exits", "leaves", "dies", "executes"])
def test_ends_while_threads_make_calls(folder: Path, tmp_path: Path, how: str) -> None:
    seen, notes = _traced(folder, tmp_path / "log", "riscv64", how)
    assert set(seen) == {"together"}
    assert ("not complete" in notes) == (how == "executes")


def test_ends_while_threads_stand_for_breakpoints(folder: Path, tmp_path: Path) -> None:
    """The thread that ends the program is kept from that no longer than the others."""
    path = _built(folder, "riscv64")
    words = ["trace", *_options(tmp_path / "log", "riscv64"), path, "leaves"]
    done = run([sys.executable, "-c", ENDS_IN_PAUSE, *words])
    assert (done.returncode, done.stdout) == (7, "")
    assert "paused at the end" in done.stderr


def test_a_signal_of_somebody_else(folder: Path) -> None:
    """Whoever ends soscope ends a program of many threads."""
    path = _built(folder, "ppc64le")
    words = ["trace", "-e", "together", "--sysroot", str(sysroot("ppc64le")), "--", str(path)]
    command = [sys.executable, "-m", "soscope", *words, "stays"]
    tracer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert tracer.stderr is not None
        seen = 0
        while seen < 20:
            line = tracer.stderr.readline()
            assert line
            seen += "together" in line
        tracer.send_signal(signal.SIGTERM)
        _, rest = tracer.communicate(timeout=limit())
        assert tracer.returncode == -signal.SIGTERM
        assert "+++ killed by SIGTERM +++" in rest
    finally:
        kill(tracer)


def test_without_ptrace_the_program_is_left_alone(folder: Path, tmp_path: Path) -> None:
    path = _built(folder, "ppc64le")
    words = ["trace", *_options(tmp_path / "log", "ppc64le"), path, "race", "10"]
    done = run([sys.executable, "-c", NO_PTRACE, *words])
    assert (done.returncode, done.stdout) == (7, "done\n")
    assert account(done.stderr)["together"] == 4 * 10 + 1
    assert "a second thread was about to start" in done.stderr
    assert "(operation not permitted)" in done.stderr
    assert "not complete" in done.stderr.splitlines()[-1]


def test_an_engine_for_one_thread_says_so(folder: Path, tmp_path: Path) -> None:
    path = _built(folder, "ppc64le")
    words = ["--engine", "slot", *_options(tmp_path / "log", "ppc64le")]
    done = soscope("trace", *words, path, "race", "10")
    assert (done.returncode, done.stdout) == (7, "done\n")
    assert account(done.stderr)["together"] == 4 * 10 + 1
    assert "(engine slot is for one thread)" in done.stderr
    assert "not complete" in done.stderr.splitlines()[-1]
