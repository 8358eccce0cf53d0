# SPDX-License-Identifier: Apache-2.0
"""What several threads of an emulated program need: who makes one, and stops that come late."""

from __future__ import annotations

import os

from soscope.control.remote import kinds, passing
from soscope.control.remote.guest import GuestMemory
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.stub import RemoteStub

_CLONE_THREAD = 0x10000  # <linux/sched.h>
_FLAGS = 2  # which argument of clone(2)


class LateStops:
    """Points that are gone, at which a thread may have stopped while they were there.

    It waits for its turn to tell then. What it stops for once more is its own.
    """

    __slots__ = ("_gone", "_heard", "_now")

    def __init__(self) -> None:
        self._gone: dict[int, int] = {}
        self._heard: dict[int, int] = {}
        self._now = 0

    def gone(self, addr: int) -> None:
        """Take note that threads stop there no more."""
        self._now += 1
        self._gone[addr] = self._now

    def is_late(self, tid: int, addr: int) -> bool:
        """Return whether a point was at `addr` when the thread was heard last."""
        return self._gone.get(addr, 0) > self._heard.get(tid, 0)

    def heard(self, tid: int) -> None:
        """Take note that a thread has told of its stop."""
        self._heard[tid] = self._now

    def forget(self, tid: int) -> None:
        """Forget a thread that has ended."""
        self._heard.pop(tid, None)


def makes_thread(stub: RemoteStub, memory: GuestMemory, convention: Convention, sp: int) -> bool:
    """Return whether clone(3), whose first instruction a thread stands at, is to make a thread."""
    reader = passing.Reader(stub, memory, convention, sp)
    reader.take([kinds.WORD] * (_FLAGS + 1))
    return bool(reader.taken.words[_FLAGS] & _CLONE_THREAD)


def closes_socket(stub: RemoteStub, memory: GuestMemory, convention: Convention, sp: int) -> bool:
    """Return whether closefrom(3), where a thread is about to begin, is to close a socket.

    The emulator's own are among them, at numbers that the program does not know of.
    """
    reader = passing.Reader(stub, memory, convention, sp)
    reader.take([kinds.WORD])
    first = reader.taken.words[0] & 0xFFFF_FFFF
    folder = f"/proc/{memory.pid}/fd"
    try:
        return any(
            int(name) >= first and os.readlink(f"{folder}/{name}").startswith("socket:")
            for name in os.listdir(folder)
        )
    except OSError:
        return True  # nobody knows, so it is not to be found out by closing it
