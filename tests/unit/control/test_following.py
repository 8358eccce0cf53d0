# SPDX-License-Identifier: Apache-2.0
"""What a helper has said is heard, whatever it has left unread."""

from __future__ import annotations

import _socket
import os
import select

from soscope.control import helper
from soscope.control.events import SessionEvents
from soscope.control.following import Following
from soscope.control.helper import Packets
from soscope.control.program import Program
from tests.support.time.patience import limit


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
