# SPDX-License-Identifier: Apache-2.0
"""While a program runs: signals to it and to soscope, stopping, and soscope's own death."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.tools import need
from tests.support.processes import launching
from tests.support.processes.launching import launched, mini_agent, wait_for, wait_state
from tests.support.processes.run import kill
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run, has_switched, state, switches

MODES = ("plain", "stay", "follow")
MOMENTS = range(8)
LONG = "12000"  # hundredths of a second: longer than any test, each of which ends it
GONE = ("", "Z")


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
    folder: Path,
    *command: str | os.PathLike[str],
    mode: str,
    agent: Path | None = None,
    stdin: int = subprocess.DEVNULL,
) -> Iterator[Session]:
    """Run a launcher in a session of its own; nothing of it survives."""
    argv = launching.words(folder / "report", command, mode, agent)
    # Background jobs of a shell inherit that these are ignored.
    argv = [need("env"), "--default-signal=INT", "--default-signal=QUIT", *argv]
    process = subprocess.Popen(
        argv,
        env=launching.environment(),
        stdin=stdin,
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


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", MODES)
def test_soscopes_own_death_does_not_matter(tmp_path: Path, mode: str) -> None:
    with session(tmp_path, launched(), "wait", LONG, mode=mode) as one:
        pid = one.started()
        assert read_line(one.process) == "ready\n"
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait(limit())
        until(has_switched(pid), "the target goes on")
        os.kill(pid, signal.SIGUSR1)
        out, _ = one.process.communicate(timeout=limit())  # ends when the target closes the pipe
        assert out == "done 1\n"


@pytest.mark.parametrize("mode", ["stay", "follow"])
def test_soscopes_death_between_stops_does_not_lose_signals(tmp_path: Path, mode: str) -> None:
    with session(tmp_path, launched(), "signals", "100000", mode=mode) as one:
        pid = one.started()
        until(has_switched(pid, 100), "it stops for its signals", pause=0.0)
        os.kill(one.process.pid, signal.SIGKILL)
        # it counts its signals, and ends when it has seen all
        until(lambda: state(pid) in GONE, "the target ends")
        assert state(pid) in GONE
        one.target = 0


def test_soscopes_death_while_the_agent_goes_in_ends_the_program(tmp_path: Path) -> None:
    """It has done nothing yet, and would run into our breakpoint."""
    agent = mini_agent("-DMINI_HANG")
    with session(tmp_path, launched(), "wait", "10", mode="plain", agent=agent) as one:
        child = until(lambda: _child(one.process.pid), "a child", running=one.process)
        until(has_run(child, cpu=0.2), "its agent hangs", running=one.process)
        os.kill(one.process.pid, signal.SIGKILL)
        out, _ = one.process.communicate(timeout=limit())
        assert out == ""
        until(lambda: state(child) in GONE, "the program ends")


@pytest.mark.every(4)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_target_that_is_killed_on_its_way_is_killed(tmp_path: Path, moment: int) -> None:
    with session(tmp_path, launched(), "wait", LONG, mode=MODES[moment % 3]) as one:
        os.kill(_on_its_way(one, moment), signal.SIGKILL)
        assert one.process.wait(timeout=limit()) == -signal.SIGKILL
        assert one.report()["exit"] == [None, signal.SIGKILL]
        assert [event[0] for event in one.report()["events"]] == ["start", "exit"]


@pytest.mark.every(4)
@pytest.mark.parametrize("moment", MOMENTS)
def test_when_soscope_is_killed_the_program_runs_all_or_nothing(
    tmp_path: Path, moment: int
) -> None:
    with session(tmp_path, launched(), "wait", "5", mode=MODES[moment % 3]) as one:
        _on_its_way(one, moment)
        os.kill(one.process.pid, signal.SIGKILL)
        out, _ = one.process.communicate(timeout=limit())
        assert out in ("", "ready\ndone 0\n")


def _child(pid: int) -> int:
    """Return the first child of a process, 0 if there is none."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return int(text.split()[0]) if text else 0


def _on_its_way(one: Session, moment: int) -> int:
    """Return the target when it has waited `moment` times: soscope has it stop that often."""
    child = until(lambda: _child(one.process.pid), "a child", pause=0.0)
    until(lambda: state(child) in GONE or switches(child) >= moment, "its moment", pause=0.0)
    return child


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_sent_to_soscope_reach_the_target(
    tmp_path: Path, mode: str, number: signal.Signals
) -> None:
    with session(tmp_path, launched(), "wait", LONG, mode=mode) as one:
        one.started()
        assert read_line(one.process) == "ready\n"
        os.kill(one.process.pid, number)
        assert read_line(one.process) == "done 1\n"
        assert one.process.wait(timeout=limit()) == 5


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", MODES)
def test_sigint_to_the_group_is_the_targets_to_decide(tmp_path: Path, mode: str) -> None:
    with session(tmp_path, launched(), "wait", LONG, mode=mode) as one:
        one.started()
        assert read_line(one.process) == "ready\n"
        os.killpg(one.process.pid, signal.SIGINT)
        assert one.process.wait(timeout=limit()) == -signal.SIGINT
        assert one.report()["exit"] == [None, signal.SIGINT]


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", MODES)
def test_stop_and_continue(tmp_path: Path, mode: str) -> None:
    with session(tmp_path, launched(), "wait", LONG, mode=mode) as one:
        pid = one.started()
        assert read_line(one.process) == "ready\n"
        for _ in range(2):
            os.kill(pid, signal.SIGSTOP)
            wait_state(pid, "Tt")
            until(has_switched(one.process.pid), "soscope has known of it for long")
            assert state(pid) in ("T", "t")
            os.kill(pid, signal.SIGCONT)
            wait_state(pid, "SR")
        os.kill(pid, signal.SIGUSR1)
        assert read_line(one.process) == "done 1\n"
        assert one.process.wait(timeout=limit()) == 5


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", MODES)
def test_ctrl_z_on_a_terminal_stops_both(tmp_path: Path, mode: str) -> None:
    argv = launching.words(tmp_path / "report", [launched(), "wait", LONG], mode, None)
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
        os.kill(int(wait_for(tmp_path / "report.started")), signal.SIGUSR1)
        assert states.split()[0] == "T"
        assert states.split()[1] in ("T", "t")
        assert wait_for(tmp_path / "ended") == f"{int(signal.SIGTSTP)} 5"
        while b"done 1" not in shown:
            shown += os.read(terminal, 1000)
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", MODES)
def test_who_stops_and_continues_the_target_alone_on_a_terminal(tmp_path: Path, mode: str) -> None:
    argv = launching.words(tmp_path / "report", [launched(), "wait", LONG], mode, None)
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
            wait_state(pid, "T")  # a shell is to hear of it
            assert state(target) in ("T", "t")
            os.kill(target, signal.SIGCONT)
            wait_state(pid, "SR")
            wait_state(target, "SR")
        os.kill(target, signal.SIGUSR1)
        while b"done 1" not in shown:
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
        assert one.process.wait(timeout=limit()) == 0
        signals = [event for event in one.report()["events"] if event[0] == "signal"]
        assert len(signals) == 500
        assert {event[3] for event in signals} == {int(signal.SIGUSR1)}
        assert {event[1] for event in signals} == {one.report()["programs"][0]["pid"]}


def test_a_detached_target_that_executes_another_program_is_noticed(tmp_path: Path) -> None:
    text = """
        #include <unistd.h>
        int main(void)
        {
            char byte;
            return read(0, &byte, 1) != 1 || execl("/bin/cat", "cat", NULL);
        }"""
    program = launching.compiled("reader.c", text=text)
    with session(tmp_path, program, mode="plain", stdin=subprocess.PIPE) as one:
        pid = one.started()
        assert one.process.stdin is not None
        one.process.stdin.write("x")
        one.process.stdin.flush()
        other = os.path.realpath("/bin/cat")
        until(lambda: os.readlink(f"/proc/{pid}/exe") == other, "another program")
        until(has_switched(one.process.pid, 20), "soscope has looked at it")
        one.process.communicate(timeout=limit())  # closes it
        assert one.process.returncode == 0
        programs = one.report()["programs"]
        assert [program["reason"] for program in programs] == [None, "not followed"]
        assert programs[1]["path"] == other


def test_a_target_that_executes_another_program_is_followed(tmp_path: Path) -> None:
    with session(tmp_path, launched(), "exec", "/bin/true", mode="stay") as one:
        assert one.process.wait(timeout=limit()) == 0
        programs = one.report()["programs"]
        assert [program["reason"] for program in programs] == [None, None]
        kinds = [event[0] for event in one.report()["events"]]
        assert kinds == ["start", "exec", "exit"]
