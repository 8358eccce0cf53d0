# SPDX-License-Identifier: Apache-2.0
"""Files of processes that are no files: a pipe that nobody reads holds nobody up."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from soscope.instruments.trace.listener import Listener
from soscope.model.call import Event, Signal
from soscope.prototypes import load
from soscope.report.output import Output
from soscope.report.trace.adorned import SeparateListener
from soscope.select.filter import compile_selection

MANY = 4000  # lines: more than a pipe holds


class Lines(Listener):
    """Writes a line for each event."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def events(self, batch: list[Event]) -> None:
        self._output.write("".join(f"{one!r:.50}\n" for one in batch))


def listener(folder: Path) -> SeparateListener:
    made = SeparateListener(str(folder / "calls"), Lines)
    made.begin(load(), compile_selection([], []))
    return made


def signals(count: int) -> list[Event]:
    return [Signal(at, 123, 123, 15) for at in range(count)]


def finish(made: SeparateListener) -> Output:
    made._close(123, None)  # as at the end of the process
    (failed,) = made.failed
    return failed


def test_a_pipe_without_a_reader_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "calls.123")
    made = listener(tmp_path)
    made.events(signals(3))
    failed = finish(made)
    assert failed.lost == 3
    assert failed.error is not None
    assert failed.error.errno == errno.ENXIO


def test_a_pipe_that_nobody_reads_is_given_up_when_asked_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "calls.123")
    reader = os.open(tmp_path / "calls.123", os.O_RDONLY | os.O_NONBLOCK)
    made = listener(tmp_path)
    asked: list[int] = []

    def meanwhile() -> bool:
        asked.append(1)
        return len(asked) < 3

    made.destination.attend(meanwhile)
    made.events(signals(MANY))
    failed = finish(made)
    assert len(asked) == 3
    assert 0 < failed.lost < MANY
    assert os.read(reader, 10)
    os.close(reader)
