# SPDX-License-Identifier: Apache-2.0
"""What a helper has said is heard, whatever it has left unread."""

from __future__ import annotations

import _socket
import os
import select

from soscope.control import helper
from soscope.control.helper import Following, Packets
from soscope.control.program import Program, SessionEvents
from tests.support.time.patience import limit, until


class _Events(SessionEvents):
    def __init__(self) -> None:
        self.signals: list[int] = []

    def on_signal(self, pid: int, tid: int, signal: int, time_ns: int) -> None:
        assert pid == tid == time_ns + 1
        self.signals.append(signal)


def test_a_helper_that_ends_before_it_is_told_to() -> None:
    def live(link: _socket.socket) -> None:
        packets = Packets(link, None)
        packets.send((helper.OVER, False))
        select.select([link], [], [], limit())  # soscope says stop, and nobody reads it
        packets.on_signal(1, 1, 10, 0)
        packets.send((helper.OVER, True))

    events = _Events()
    Following(Program(0, os.getpid(), "", 0), events, live).stop()
    assert events.signals == [10]


def test_what_a_helper_says_may_be_long() -> None:
    """A note names each function that has no breakpoint: a wide pattern makes it long."""
    note = ", ".join(f"function_{number}" for number in range(100_000))

    def live(link: _socket.socket) -> None:
        packets = Packets(link, None)
        packets.send((helper.OVER, False))
        program = Program(1, os.getppid(), "/bin/program", 0)
        program.note = note
        packets.on_process("exec", program.pid, None, program, 0)
        packets.on_signal(1, 1, 10, 0)
        packets.send((helper.OVER, True))
        while not packets.flush():
            select.select([], [link], [], limit())

    events = _Events()
    following = Following(Program(0, os.getpid(), "", 0), events, live)
    until(lambda: following.poll() and following.is_over, "the end of what it says")
    following.stop()
    assert [program.note for program in following.programs] == [note]
    assert events.signals == [10]
    assert not following.was_killed
