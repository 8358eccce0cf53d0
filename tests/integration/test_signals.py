# SPDX-License-Identifier: Apache-2.0
"""Signals to the target, to soscope, and to both: each arrives once, and the trace has an end."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from soscope.errors import SoscopeError
from soscope.proc import status
from soscope.proc.status import children
from tests.support.machines.tools import need
from tests.support.processes import run, tracing
from tests.support.processes.launching import python_path
from tests.support.processes.tracing import Case
from tests.support.time import busy
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched
from tests.support.truth import recorded

SENT = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTSTP,
)
MODES = {
    "summary": ["-c", "--json", "-o"],
    "count": ["--count-only", "--json", "-o"],
    "lines": ["-e", "f0", "--json", "-o"],
    "record": ["-e", "f0", "--record"],
}
FOLLOWED = {f"{name}-f": ["-f", *words] for name, words in MODES.items()}
ALL = {**MODES, **FOLLOWED}
FOREGROUND = ["--default-signal=INT", "--default-signal=QUIT"]  # a shell's `&` ignores these


class Traced:
    """A command under soscope, in a session of its own. `pid` is soscope's."""

    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.output = output
        self.target = 0

    def ready(self) -> int:
        """Wait until the target says its pid; return that."""
        word, number = self.line().split()
        assert word == "ready"
        self.target = int(number)
        return self.target

    def line(self) -> str:
        """Return the next line of the target's output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def counts(self) -> dict[int, int]:
        """End the target; return how often it got each signal."""
        parent = status.read_stat(self.target).parent
        if parent != os.getpid():  # it is soscope, which may still pass on what it has got
            until(has_switched(parent), "soscope waits again and again", running=self.process)
        os.kill(self.target, signal.SIGRTMIN)
        line = self.line()
        assert ":" in line, f"once more: {line}"
        pairs = [word.split(":") for word in line.split()]
        return {int(number): int(count) for number, count in pairs}


@contextlib.contextmanager
def traced(
    mode: str, folder: Path, *command: str, prefix: tuple[str, ...] = ()
) -> Iterator[Traced]:
    """Run a command under soscope, or alone where the mode is "alone"."""
    output = folder / ("run.sosr" if mode.startswith("record") else "output")
    words = [*tracing.SOSCOPE, "-q", *ALL[mode], str(output), "--"] if mode in ALL else []
    process = subprocess.Popen(
        [need("env"), *FOREGROUND, *prefix, *words, *command],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    one = Traced(process, output)
    try:
        yield one
    finally:
        run.kill(process, one.target)


def told(*words: str) -> list[str]:
    return tracing.program(Case("told", words))


def whole(mode: str, output: Path) -> bool:
    """Return whether what soscope wrote has its end."""
    if mode.startswith("record"):
        return recorded.by_columns(output).problems == []
    text = output.read_text()
    if mode.startswith("lines"):
        return "exit" in [json.loads(line)["type"] for line in text.splitlines()]
    return bool(json.loads(text)["schema"])


def settled(one: Traced) -> None:
    """Wait until soscope has done what it does with the signals that it got."""

    def are_taken() -> bool:
        ours = [one.pid, *children(one.pid)]
        return not any(waiting(pid) for pid in ours if pid != one.target)

    until(are_taken, "signals to soscope are taken")


def waiting(pid: int) -> bool:
    """Return whether one of the signals waits in a process."""
    try:
        fields = status.read_status(pid)
    except SoscopeError:  # it has ended
        return False
    bits = int(fields.get("SigPnd", "0"), 16) | int(fields.get("ShdPnd", "0"), 16)
    return any(bits >> (number - 1) & 1 for number in SENT)


def all_sent(one: Traced, *, soscope_too: bool) -> dict[int, int]:
    """Send each signal to the group and to one process, one after the other; count them."""
    one.ready()
    alone = one.pid if soscope_too else one.target
    for number in SENT:
        for send, to in ((os.killpg, one.pid), *[(os.kill, alone)] * 2, (os.killpg, one.pid)):
            send(to, number)
            assert one.line() == f"got {number:02}\n"
            settled(one)
    return one.counts()


@pytest.mark.every(4)
@pytest.mark.parametrize("mode", ALL)
def test_what_is_sent_to_soscope_or_to_all_arrives_once(mode: str, tmp_path: Path) -> None:
    """An untraced program gets each four times: its process is the one that is told."""
    with traced("alone", tmp_path, *told()) as one:
        alone = all_sent(one, soscope_too=False)
        assert one.process.wait(limit()) == 0
    assert alone == dict.fromkeys(map(int, SENT), 4)
    with traced(mode, tmp_path, *told()) as one:
        assert all_sent(one, soscope_too=True) == alone
        assert one.process.wait(limit()) == 0
        assert whole(mode, one.output)


def names(pid: int) -> tuple[bytes, bytes]:
    """Return what pkill, killall and pidof know of a process."""
    return Path(f"/proc/{pid}/comm").read_bytes(), Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.every(4)
@pytest.mark.parametrize("mode", ALL)
def test_what_is_sent_to_all_that_are_called_soscope_is_passed_on(
    mode: str, tmp_path: Path
) -> None:
    with traced(mode, tmp_path, *told()) as one:
        one.ready()
        name, words = names(one.pid)
        others = [pid for pid in children(one.pid) if pid != one.target]
        assert others
        for number in SENT:
            for pid in [one.pid, *others]:
                if name in names(pid) or words in names(pid):
                    os.kill(pid, number)
            assert one.line() == f"got {number:02}\n"
            settled(one)
        assert one.counts() == dict.fromkeys(map(int, SENT), 1)
        assert one.process.wait(limit()) == 0


def test_signals_that_never_cease_hold_up_nothing_else(tmp_path: Path) -> None:
    """Such as a timer of the parent's: the target fills its buffer twice meanwhile."""
    ignoring = ("env", "--ignore-signal=USR1")
    with traced("record", tmp_path, *told("last", "600000", "2"), prefix=ignoring) as one:
        ignored = 1 << signal.SIGUSR1 - 1
        ignores = "it ignores the signal"
        until(lambda: int(status.read_status(one.pid)["SigIgn"], 16) & ignored, ignores)
        for _ in range(30_000):
            if one.process.poll() is not None:
                break
            os.kill(one.pid, signal.SIGUSR1)
            time.sleep(0.002)  # the timer's
        assert one.process.wait(limit()) == 7
        found = recorded.by_columns(one.output)
        assert found.problems == []
        assert found.by_name["f0"] == 600_000


@pytest.mark.every(10)
@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("which", range(len(SENT) - 1))
def test_a_signal_that_waits_when_the_target_ends_does_no_harm(
    mode: str, which: int, tmp_path: Path
) -> None:
    """A script that ends with `kill 0`, a service that is stopped: all are told at once."""
    with traced(mode, tmp_path, *told("last", "20000", str(which))) as one:
        assert one.process.wait(limit()) == 7
        assert whole(mode, one.output)


@pytest.mark.covering(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
@pytest.mark.parametrize("mode", FOLLOWED)
def test_when_children_alone_are_left_soscope_can_be_ended(
    mode: str, number: int, tmp_path: Path
) -> None:
    with traced(mode, tmp_path, *told("daemon")) as one:
        target = one.ready()
        until(lambda: all(is_other(pid) for pid in children(one.pid)), "the target ends")
        os.kill(one.pid, number)
        assert one.process.wait(limit()) == 3
        assert whole(mode, one.output)
        assert status.state_of(target) not in status.ENDED_STATES  # it lives on, and is let go of
        assert status.read_status(target)["TracerPid"] == "0"


def test_who_ignores_hangups_does_not_end_by_one(tmp_path: Path) -> None:
    """As nohup has it, and `&` in a script."""
    ignoring = ("nohup",)
    with traced("summary-f", tmp_path, *told("daemon"), prefix=ignoring) as one:
        one.ready()
        until(lambda: all(is_other(pid) for pid in children(one.pid)), "the target ends")
        os.kill(one.pid, signal.SIGHUP)
        settled(one)
        until(has_switched(one.pid, 20), "soscope goes on", running=one.process)
        assert one.process.poll() is None
        os.kill(one.pid, signal.SIGTERM)
        assert one.process.wait(limit()) == 3


def is_other(pid: int) -> bool:
    """Return whether a child of soscope has ended, or is none that it has started."""
    if status.state_of(pid) in ("", *status.ENDED_STATES):
        return True
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(need("cat"))
    except FileNotFoundError:
        return False  # it ends just now, and nobody can know that yet


@pytest.mark.every(4)
@pytest.mark.parametrize("mode", ALL)
def test_what_the_target_and_its_children_send_is_not_sent_back(mode: str, tmp_path: Path) -> None:
    """`kill 0` in a script; a server that tells its parent that it is ready."""
    with traced(mode, tmp_path, *told("parent")) as one:
        assert {one.line(), one.line()} == {"got 10\n", "got 15\n"}
        one.ready()
        settled(one)
        counts = one.counts()
        assert counts == {**dict.fromkeys(map(int, SENT), 0), 10: 1, 15: 1}
        assert one.process.wait(limit()) == 0


@pytest.mark.every(4)
@pytest.mark.parametrize("which", [["--foreground"], []], ids=["child", "group"])
@pytest.mark.parametrize("mode", ALL)
def test_timeout_ends_it_as_it_would_end_the_command(
    mode: str, which: list[str], tmp_path: Path
) -> None:
    """It sends to its child alone, or to that and then to the whole group."""
    prefix = ("timeout", "--preserve-status", *which, "600")
    with traced(mode, tmp_path, *told(), prefix=prefix) as one:
        one.ready()
        os.kill(one.pid, signal.SIGALRM)  # as its timer does when the time is over
        assert one.line() == "got 15\n"
        until(lambda: status.state_of(one.target) != "T", "the target goes on")
        assert one.counts()[15] == 1
        assert one.process.wait(limit()) == 0


# What timeout does, with too little of a processor: the second kill comes late by the clock.
SENDER = f"""{busy.SHARE}
import time
group, *numbers = map(int, sys.argv[2:])
for number in numbers:
    sys.stdin.readline()
    os.kill(group, number)
    end = time.thread_time() + 0.003
    while time.thread_time() < end:
        pass
    os.killpg(group, number)
"""


@pytest.mark.parametrize("mode", ["summary", "lines-f"])
def test_a_sender_that_has_no_processor_is_waited_for(mode: str, tmp_path: Path) -> None:
    with traced(mode, tmp_path, *told()) as one, busy.processor() as processor:
        one.ready()
        words = [processor, str(one.pid), *(str(int(number)) for number in SENT)]
        with subprocess.Popen(
            [sys.executable, "-c", SENDER, *words], stdin=subprocess.PIPE, text=True, bufsize=1
        ) as sender:
            assert sender.stdin is not None
            for number in SENT:
                sender.stdin.write("\n")
                assert one.line() == f"got {number:02}\n"
        assert sender.returncode == 0
        assert one.counts() == dict.fromkeys(map(int, SENT), 1)
        assert one.process.wait(limit()) == 0


@pytest.mark.covering(1)
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("how", ["waiting", "busy", "starting"])
def test_lines_end_with_the_signal_that_kills_threads(
    how: str, follow: bool, tmp_path: Path
) -> None:
    command = tracing.program(Case("killed", (how, "8", "15")))
    output = tmp_path / "lines"
    words = ["trace", "-q", "-e", "f0", *(["-f"] if follow else []), "-o", str(output)]
    done = run.soscope(*words, "--", *command, env={"SOSC_TRUTH": str(tmp_path / "truth")})
    assert done.returncode == -signal.SIGTERM, done.stderr
    lines = output.read_text().splitlines()
    assert sum("f0(" in line for line in lines) == 10
    assert "killed by SIGTERM" in lines[-1]


@pytest.mark.covering(1)
@pytest.mark.parametrize("follow", [[], ["-f"]], ids=["alone", "follow"])
@pytest.mark.parametrize("into", ["fifo", "stderr", "terminal"])
def test_a_reader_that_stands_still_holds_up_no_signal(
    into: str, follow: list[str], tmp_path: Path
) -> None:
    """Nor, with -f, what the target's children wait for."""
    with stuck(into, tmp_path, follow) as (one, _):
        one.ready()
        os.kill(one.pid, signal.SIGTERM)
        assert one.line() == "got 15\n"
        os.kill(one.target, signal.SIGRTMIN)
        assert ":" in one.line()
        assert one.line() == "forked\n"
        one.ready()
        os.kill(one.pid, signal.SIGINT)
        assert one.line() == "got 02\n"
        os.kill(one.target, signal.SIGRTMIN)
        assert one.process.wait(limit()) == 0  # it was asked to end, and the target has


@pytest.mark.parametrize("follow", [[], ["-f"]], ids=["alone", "follow"])
def test_a_reader_that_stands_still_at_the_end_holds_up_nobody(
    follow: list[str], tmp_path: Path
) -> None:
    """What was asked of soscope before the target ended is not forgotten by then."""
    with stuck("fifo", tmp_path, follow, calls=10) as (one, reader):
        one.ready()
        os.kill(one.pid, signal.SIGTERM)
        assert one.line() == "got 15\n"
        text = b""
        while b"SIGTERM" not in text:
            assert select.select([reader], [], [], limit())[0]
            text += os.read(reader, 65536)
        fill(tmp_path / "fifo")
        os.kill(one.target, signal.SIGKILL)
        assert one.process.wait(limit()) == -signal.SIGKILL


def fill(fifo: Path) -> None:
    """Write until nothing more finds room."""
    writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(1))
    os.close(writer)


def test_who_reads_late_misses_nothing(tmp_path: Path) -> None:
    with stuck("fifo", tmp_path, []) as (one, reader):
        one.ready()
        os.kill(one.target, signal.SIGRTMIN)
        assert ":" in one.line()
        assert one.line() == "forked\n"
        one.ready()
        os.kill(one.target, signal.SIGRTMIN)
        assert ":" in one.line()
        until(lambda: all(is_other(pid) for pid in children(one.pid)), "the target ends")
        assert one.process.poll() is None
        text = b""
        while one.process.poll() is None or select.select([reader], [], [], 0)[0]:
            if select.select([reader], [], [], 0.05)[0]:
                if not (piece := os.read(reader, 65536)):
                    break
                text += piece
        assert text.count(b"f0(") == CALLS
        assert one.process.wait(limit()) == 0


CALLS = 20_000


def test_a_note_that_nobody_reads_holds_up_no_trace(tmp_path: Path) -> None:
    """The filter matches nothing: that is said when the trace begins."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while True:
        try:
            os.write(writer, bytes(1 << 12))
        except BlockingIOError:  # full, as it is to be
            break
    os.set_blocking(writer, True)
    shown = tmp_path / "calls"
    words = [*tracing.SOSCOPE, "-e", "f0,no_such_function", "-o", str(shown)]
    process = subprocess.Popen(
        [*words, "--", *told("last", "5", "0")],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=writer,
        start_new_session=True,
    )
    os.close(writer)
    try:
        until(lambda: shown.exists() and "+++ exited" in shown.read_text(), "the end is told")
        assert process.poll() is None  # what it has to say waits
        data = b""
        while piece := os.read(reader, 1 << 16):
            data += piece
        assert b"no_such_function" in data
        assert process.wait(limit()) == 7
    finally:
        process.kill()
        process.wait(limit())
        os.close(reader)


@contextlib.contextmanager
def stuck(
    into: str, folder: Path, options: list[str], *, calls: int = CALLS
) -> Iterator[tuple[Traced, int]]:
    """Trace into what nobody reads; yield that, too."""
    words = [*tracing.SOSCOPE, "-q", "-e", "f0", *options]
    if into == "fifo":
        os.mkfifo(folder / "fifo")
        reader = os.open(folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(folder / "fifo", os.O_WRONLY)
        words += ["-o", str(folder / "fifo")]
    elif into == "stderr":
        reader, writer = os.pipe()
    else:
        reader, writer = pty.openpty()
    process = subprocess.Popen(
        [need("env"), *FOREGROUND, *words, "--", *told("forks", str(calls))],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if into == "fifo" else writer,
        text=True,
        start_new_session=True,
    )
    os.close(writer)
    one = Traced(process, folder)
    try:
        yield one, reader
    finally:
        run.kill(process, one.target)
        os.close(reader)
