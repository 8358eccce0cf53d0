# SPDX-License-Identifier: Apache-2.0
"""Guard, which lets a program go when soscope is killed, with a stub that reads as qemu's does."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from soscope.control.gdbserver.guard import Guard
from tests.support.time.patience import limit

_READ = 256  # bytes that gdb_handlesig() of qemu 7.2 reads at once
_ANSWERS = {b"g": b"00000001", b"z0,10,4": b"OK", b"qC": b"QC1", b"D": b"OK"}


class Stub(threading.Thread):
    """A stub that takes the acknowledgement of an answer from the socket, behind what it has read.

    `heard` are the packets that came.
    """

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(daemon=True)
        self._socket = connected
        self.heard: list[bytes] = []

    def run(self) -> None:
        """Answer until the other side has gone."""
        while data := self._socket.recv(_READ):
            for packet in data.split(b"$")[1:]:
                self._answer(packet.partition(b"#")[0])

    def _answer(self, packet: bytes) -> None:
        self.heard.append(packet)
        answer = _ANSWERS[packet]
        self._socket.sendall(b"+$%s#%02x" % (answer, sum(answer) & 0xFF))
        while self._socket.recv(1) not in {b"+", b""}:
            pass


@pytest.mark.parametrize("asked", [[], [b"g"], [b"z0,10,4", b"g"]])
def test_a_question_that_is_read_with_those_of_the_guard(asked: list[bytes]) -> None:
    """soscope is killed when it has asked, before the stub has read the question."""
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            guard = Guard(lambda: ours, 0, programs=False, at_stops=True)
            for packet in asked:
                ours.sendall(b"+$%s#%02x" % (packet, sum(packet) & 0xFF))
            theirs.settimeout(limit())
            guard.stay()
            while b"qC" not in theirs.recv(1 << 16, socket.MSG_PEEK):
                pass
        stub = Stub(theirs)
        stub.start()
        stub.join(limit(10))
        assert not stub.is_alive()
        assert stub.heard == [*asked, b"qC", b"D"]
    os.waitpid(guard._child, 0)
