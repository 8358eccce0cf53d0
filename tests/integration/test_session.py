# SPDX-License-Identifier: Apache-2.0
"""A session with another instrument than trace: it counts, and the target says whether right."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from soscope.control.outcome import STOPPED_DURATION, Outcome, ProgramOutcome
from soscope.control.session import Session
from soscope.control.settings import Hooks, Instrument, SessionSettings
from soscope.errors import UsageError
from soscope.model.call import ProcessStart, Signal
from soscope.prototypes import load
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Sink, Told
from soscope.select.filter import compile_selection
from soscope.wire import layout
from soscope.wire.block import ControlBlock
from tests.support.processes import attached
from tests.support.targets import build
from tests.support.time.patience import limit
from tests.support.truth.account import Truth


class Counter(Instrument):
    """Counts the calls of a function by one image."""

    name = "counter"

    def __init__(self, function: str, image: str) -> None:
        self.function = function
        self.hooks = Hooks(layout.INSTRUMENT_COUNT, compile_selection([function], [image]), load())
        self.calls = 0
        self.paths: list[str] = []
        self.is_hooked = threading.Event()
        self.outcome: Outcome | None = None
        self._at_stop: dict[ControlBlock, dict[int, int]] = {}

    def options(self) -> dict[str, object]:
        return {"mode": "count", "function": self.function}

    def move(self) -> bool:
        self.is_hooked.set()
        return False

    def stopped(self, block: ControlBlock) -> None:
        self._at_stop[block] = block.counts()

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        if block not in self._at_stop:
            self.stopped(block)
        counts = self._at_stop.pop(block)
        sink.counts(program.index, counts)
        self.calls += sum(counts.values())
        self.paths.append(os.path.basename(program.path))

    def totals(self) -> dict[str, int]:
        return {"calls": self.calls}

    def end(self, outcome: Outcome) -> None:
        self.outcome = outcome


class Processes(Instrument):
    """Hooks nothing: it hears which processes there are, and how they end."""

    name = "processes"

    def __init__(self) -> None:
        self.heard: list[str] = []

    def sinks(self) -> list[Sink]:
        heard = self.heard

        class Hearing(Sink):
            def event(self, event: Told) -> None:
                if not isinstance(event, Signal):
                    heard.append(event.event if isinstance(event, ProcessStart) else "exit")

        return [Hearing()]


def writes() -> str:
    return str(build.program("writes"))


def counter() -> Counter:
    return Counter("write", os.path.basename(writes()))


@pytest.fixture
def truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the file in which targets account for their calls."""
    path = tmp_path / "truth"
    monkeypatch.setenv("SOSC_TRUTH", str(path))
    return path


def told(path: Path) -> tuple[int, int]:
    """Return how many writes the targets say that there were: the least and the most."""
    return Truth.read(path).bounds(followed=True)["write"]


def pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def ask(orders: IO[str], answers: IO[str], count: int) -> int:
    """Let a target write so often; return how often it has in all."""
    orders.write(f"{count}\n")
    orders.flush()
    return int(answers.readline())


def test_a_command(truth: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.sosr"
    instrument = counter()
    settings = SessionSettings([writes(), "5", "300"], record=str(record))
    outcome = Session(settings, [instrument]).run()
    assert (outcome.status, outcome.signal, outcome.shortfalls) == (0, None, [])
    assert outcome is instrument.outcome
    assert [one.path for one in outcome.programs] == [writes()]
    assert "libc.so.6" in [image.name for image in outcome.programs[0].images]
    assert (instrument.calls, instrument.calls) == told(truth) == (305, 305)
    with RecordingFile.open(record) as recording:
        assert recording.complete
        assert recording.meta["options"] == {
            "mode": "count",
            "function": "write",
            "when_full": "block",
            "follow": False,
            "processes": [],
        }
        assert (recording.end or {})["totals"] == {"calls": 305}
        assert sum(recording.counts[0].values()) == 305


def test_children_and_an_instrument_that_hooks_nothing(truth: Path) -> None:
    instrument, processes = counter(), Processes()
    program = shlex.quote(writes())
    command = ["sh", "-c", f"{program} 3; {program} 40; exit 6"]
    outcome = Session(SessionSettings(command, follow=True), [processes, instrument]).run()
    assert (outcome.status, outcome.shortfalls) == (6, [])
    assert (instrument.calls, instrument.calls) == told(truth) == (43, 43)
    name = os.path.basename(writes())
    assert instrument.paths.count(name) == 2
    # two runs with the same images are one program
    assert [os.path.basename(one.path) for one in outcome.programs] == [name, instrument.paths[-1]]
    assert processes.heard == ["start", *["fork", "exec", "exit"] * 2, "exit"]


def test_a_process_that_runs_already() -> None:
    instrument = counter()
    with attached.running([writes()], ready="") as process:
        orders, answers = pipes(process)
        assert ask(orders, answers, 3) == 3
        before = attached.snapshot(process.pid)
        session = Session(SessionSettings([], pids=[process.pid]), [instrument])
        said: list[int] = []

        def write_meanwhile() -> None:
            instrument.is_hooked.wait(limit())
            said.append(ask(orders, answers, 500))
            session.stop("")

        with beside(write_meanwhile):
            outcome = session.run()
        assert [one.pid for one in outcome.attached] == [process.pid]
        assert not outcome.attached[0].failure
        assert attached.differences(before, process.pid) == []
        assert ask(orders, answers, 20) == 523
    assert said == [503]
    assert instrument.calls == 500


def test_what_is_counted_is_what_there_was_at_the_stop(truth: Path, tmp_path: Path) -> None:
    instrument = counter()
    orders, answers = tmp_path / "orders", tmp_path / "answers"
    os.mkfifo(orders)
    os.mkfifo(answers)
    words = shlex.join(["exec", writes()])
    command = ["sh", "-c", f"{words} <{orders} >{answers}"]
    session = Session(SessionSettings(command, follow=True), [instrument])
    said: list[int] = []

    def stop_between() -> None:
        with orders.open("w") as to, answers.open() as back:
            said.append(ask(to, back, 7))
            session.stop(STOPPED_DURATION)
            said.append(ask(to, back, 20))

    with beside(stop_between):
        outcome = session.run()
    assert said == [7, 27]
    assert told(truth) == (27, 27)
    assert instrument.calls == 7
    assert (outcome.status, outcome.shortfalls) == (0, ["ended by --duration"])


def test_what_begins_after_the_stop_is_not_counted(truth: Path, tmp_path: Path) -> None:
    instrument = counter()
    orders, answers = tmp_path / "orders", tmp_path / "answers"
    os.mkfifo(orders)
    os.mkfifo(answers)
    program = shlex.quote(writes())
    command = ["sh", "-c", f"{program} 3; echo >{answers}; read go <{orders}; {program} 40"]
    session = Session(SessionSettings(command, follow=True), [instrument])

    def stop_between() -> None:
        answers.read_text()
        session.stop(STOPPED_DURATION)
        orders.write_text("go\n")

    with beside(stop_between):
        session.run()
    assert told(truth) == (43, 43)
    assert instrument.calls == 3


@contextmanager
def beside(do: Callable[[], None]) -> Iterator[None]:
    """Have a function run in another thread during the block."""
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    yield
    thread.join(limit())
    assert not thread.is_alive()


def test_instruments_that_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="counter and counter cannot hook calls in one session"):
        Session(SessionSettings(["true"]), [counter(), counter()])
    with pytest.raises(UsageError, match="no instrument hooks calls"):
        Session(SessionSettings(["true"]), [Processes()])
