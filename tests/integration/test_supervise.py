# SPDX-License-Identifier: Apache-2.0
"""While a program runs: signals to it and to soscope, stopping, and soscope's own death."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.tools import need
from tests.support.processes import launching
from tests.support.processes.launching import launched, mini_agent, state, wait_for, wait_state
from tests.support.processes.run import kill

MODES = ("plain", "stay", "follow")


class Session:
    """A launcher that runs in the background."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.report_path = folder / "report"
        self.target = 0

    def started(self) -> int:
        """Wait until the target runs; return its process id."""
        self.target = int(wait_for(self.report_path.with_name("report.started")))
        return self.target

    def report(self) -> dict[str, Any]:
        """Return the launcher's report, after its end."""
        found: dict[str, Any] = json.loads(self.report_path.read_text())
        return found


@contextlib.contextmanager
def session(
    folder: Path, *command: str | os.PathLike[str], mode: str, agent: Path | None = None
) -> Iterator[Session]:
    """Run a launcher in a session of its own; nothing of it survives."""
    argv = launching.words(folder / "report", command, mode, agent)
    # Background jobs of a shell inherit that these are ignored.
    argv = [need("env"), "--default-signal=INT", "--default-signal=QUIT", *argv]
    process = subprocess.Popen(
        argv,
        env=launching.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    one = Session(folder, process)
    try:
        yield one
    finally:
        kill(process, one.target)


def read_line(process: subprocess.Popen[str]) -> str:
    """Read a line of the target's output."""
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("mode", MODES)
def test_soscopes_own_death_does_not_matter(tmp_path: Path, mode: str) -> None:
    with session(tmp_path, launched(), "wait", "40", mode=mode) as one:
        one.started()
        assert read_line(one.process) == "ready\n"
        os.kill(one.process.pid, signal.SIGKILL)
        out, _ = one.process.communicate(timeout=30)  # ends when the target closes the pipe
        assert out == "done 0\n"


@pytest.mark.parametrize("mode", ["stay", "follow"])
def test_soscopes_death_between_stops_does_not_lose_signals(tmp_path: Path, mode: str) -> None:
    with session(tmp_path, launched(), "signals", "3000", mode=mode) as one:
        pid = one.started()
        os.kill(one.process.pid, signal.SIGKILL)
        end = time.monotonic() + 20
        while state(pid) not in ("", "Z") and time.monotonic() < end:
            time.sleep(0.01)
        assert state(pid) in ("", "Z")
        one.target = 0


def test_soscopes_death_while_the_agent_goes_in_ends_the_program(tmp_path: Path) -> None:
    """It has done nothing yet, and would run into our breakpoint."""
    agent = mini_agent("-DMINI_HANG")
    with session(tmp_path, launched(), "wait", "10", mode="plain", agent=agent) as one:
        end = time.monotonic() + 20
        while not (children := _children(one.process.pid)) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(one.process.pid, signal.SIGKILL)
        out, _ = one.process.communicate(timeout=20)
        assert out == ""
        assert wait_state(children[0], "Z", 2) in ("", "Z")


@pytest.mark.parametrize("moment", range(8))
def test_a_target_that_is_killed_on_its_way_is_killed(tmp_path: Path, moment: int) -> None:
    with session(tmp_path, launched(), "wait", "200", mode=MODES[moment % 3]) as one:
        end = time.monotonic() + 20
        while not (children := _children(one.process.pid)) and time.monotonic() < end:
            pass  # looks again at once: the moment counts
        time.sleep(moment * 0.001)
        os.kill(children[0], signal.SIGKILL)
        assert one.process.wait(timeout=20) == -signal.SIGKILL
        assert one.report()["exit"] == [None, signal.SIGKILL]
        assert [event[0] for event in one.report()["events"]] == ["start", "exit"]


@pytest.mark.parametrize("moment", range(8))
def test_when_soscope_is_killed_the_program_runs_all_or_nothing(
    tmp_path: Path, moment: int
) -> None:
    with session(tmp_path, launched(), "wait", "5", mode=MODES[moment % 3]) as one:
        end = time.monotonic() + 20
        while not _children(one.process.pid) and time.monotonic() < end:
            pass  # looks again at once: the moment counts
        time.sleep(moment * 0.002)
        os.kill(one.process.pid, signal.SIGKILL)
        out, _ = one.process.communicate(timeout=20)
        assert out in ("", "ready\ndone 0\n")


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_sent_to_soscope_reach_the_target(
    tmp_path: Path, mode: str, number: signal.Signals
) -> None:
    with session(tmp_path, launched(), "wait", "30", mode=mode) as one:
        one.started()
        assert read_line(one.process) == "ready\n"
        os.kill(one.process.pid, number)
        assert read_line(one.process) == "done 1\n"
        assert one.process.wait(timeout=20) == 5


@pytest.mark.parametrize("mode", MODES)
def test_sigint_to_the_group_is_the_targets_to_decide(tmp_path: Path, mode: str) -> None:
    with session(tmp_path, launched(), "wait", "100", mode=mode) as one:
        one.started()
        assert read_line(one.process) == "ready\n"
        os.killpg(one.process.pid, signal.SIGINT)
        assert one.process.wait(timeout=20) == -signal.SIGINT
        assert one.report()["exit"] == [None, signal.SIGINT]


@pytest.mark.parametrize("mode", MODES)
def test_stop_and_continue(tmp_path: Path, mode: str) -> None:
    with session(tmp_path, launched(), "wait", "20", mode=mode) as one:
        pid = one.started()
        assert read_line(one.process) == "ready\n"
        for _ in range(2):
            os.kill(pid, signal.SIGSTOP)
            assert wait_state(pid, "Tt") in ("T", "t")
            time.sleep(0.3)  # longer than the program would still run
            assert state(pid) in ("T", "t")
            os.kill(pid, signal.SIGCONT)
            assert wait_state(pid, "SR") in ("S", "R")
        assert read_line(one.process) == "done 0\n"
        assert one.process.wait(timeout=20) == 5


@pytest.mark.parametrize("mode", MODES)
def test_ctrl_z_on_a_terminal_stops_both(tmp_path: Path, mode: str) -> None:
    argv = launching.words(tmp_path / "report", [launched(), "wait", "30"], mode, None)
    pid, terminal = pty.fork()
    if not pid:
        # We are a shell: the job gets a process group of its own, in the foreground.
        job = os.fork()
        if not job:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.execve(argv[0], argv, launching.environment())
        _, first = os.waitpid(job, os.WUNTRACED)
        stopped = Path(tmp_path, "report.started").read_text()
        both = f"{state(job)} {state(int(stopped))}"
        Path(tmp_path, "stopped").write_text(both)
        os.killpg(job, signal.SIGCONT)
        _, last = os.waitpid(job, 0)
        Path(tmp_path, "ended").write_text(f"{os.WSTOPSIG(first)} {os.WEXITSTATUS(last)}")
        os._exit(0)
    try:
        shown = b""
        while b"ready" not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, b"\x1a")
        states = wait_for(tmp_path / "stopped")
        assert states.split()[0] == "T"
        assert states.split()[1] in ("T", "t")
        assert wait_for(tmp_path / "ended") == f"{int(signal.SIGTSTP)} 5"
        while b"done 0" not in shown:
            shown += os.read(terminal, 1000)
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("mode", MODES)
def test_who_stops_and_continues_the_target_alone_on_a_terminal(tmp_path: Path, mode: str) -> None:
    argv = launching.words(tmp_path / "report", [launched(), "wait", "20"], mode, None)
    pid, terminal = pty.fork()
    if not pid:
        os.execve(argv[0], argv, launching.environment())  # the session's first, in the foreground
    try:
        shown = b""
        while b"ready" not in shown:
            shown += os.read(terminal, 1000)
        target = int(wait_for(tmp_path / "report.started"))
        for _ in range(2):
            os.kill(target, signal.SIGSTOP)
            assert wait_state(pid, "T") == "T"  # a shell is to hear of it
            assert state(target) in ("T", "t")
            os.kill(target, signal.SIGCONT)
            assert wait_state(pid, "SR") in ("S", "R")
            assert wait_state(target, "SR") in ("S", "R")
        while b"done 0" not in shown:
            shown += os.read(terminal, 1000)
        _, last = os.waitpid(pid, 0)
        pid = 0
        assert os.WEXITSTATUS(last) == 5
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)


@pytest.mark.parametrize("mode", ["stay", "follow"])
def test_every_signal_is_seen_and_delivered(tmp_path: Path, mode: str) -> None:
    with session(tmp_path, launched(), "signals", "500", mode=mode) as one:
        assert one.process.wait(timeout=60) == 0
        signals = [event for event in one.report()["events"] if event[0] == "signal"]
        assert len(signals) == 500
        assert {event[3] for event in signals} == {int(signal.SIGUSR1)}
        assert {event[1] for event in signals} == {one.report()["programs"][0]["pid"]}


def test_a_detached_target_that_executes_another_program_is_noticed(tmp_path: Path) -> None:
    text = """
        #include <unistd.h>
        int main(void) { usleep(300000); return execl("/bin/sleep", "sleep", "0.5", NULL); }"""
    program = launching.compiled("sleeper.c", text=text)
    with session(tmp_path, program, mode="plain") as one:
        assert one.process.wait(timeout=60) == 0
        programs = one.report()["programs"]
        assert [program["reason"] for program in programs] == [None, "not followed"]
        assert programs[1]["path"] == os.path.realpath("/bin/sleep")


def test_an_attached_target_that_executes_another_program_is_noticed(tmp_path: Path) -> None:
    with session(tmp_path, launched(), "exec", "/bin/true", mode="stay") as one:
        assert one.process.wait(timeout=60) == 0
        programs = one.report()["programs"]
        assert [program["reason"] for program in programs] == [None, "not followed"]
        kinds = [event[0] for event in one.report()["events"]]
        assert kinds == ["start", "exec", "exit"]
