# SPDX-License-Identifier: Apache-2.0
"""Handle several threads of an emulated program: thread creation, and late stops."""

from __future__ import annotations

import os

from soscope.control.breakpoints import values
from soscope.control.remote import kinds
from soscope.control.remote.guest import GuestMemory
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.stub import RemoteStub

_CLONE_THREAD = 0x10000  # <linux/sched.h>
_FLAGS = 2  # index of an argument of clone(2)


class LateStops:
    """Removed breakpoints at which a thread may have stopped while they were in place.

    Such a thread waits for its turn to report the stop. If it stops there once more, the trap is
    the program's own.
    """

    __slots__ = ("_gone", "_heard", "_now")

    def __init__(self) -> None:
        self._gone: dict[int, int] = {}
        self._heard: dict[int, int] = {}
        self._now = 0

    def gone(self, addr: int) -> None:
        """Note that the breakpoint at an address was removed."""
        self._now += 1
        self._gone[addr] = self._now

    def is_late(self, tid: int, addr: int) -> bool:
        """Return whether a breakpoint was at `addr` at the thread's last report."""
        return self._gone.get(addr, 0) > self._heard.get(tid, 0)

    def heard(self, tid: int) -> None:
        """Note that a thread has reported its stop."""
        self._heard[tid] = self._now

    def forget(self, tid: int) -> None:
        """Drop the data of a thread that has ended."""
        self._heard.pop(tid, None)


def makes_thread(stub: RemoteStub, memory: GuestMemory, convention: Convention, sp: int) -> bool:
    """Return whether a call of clone(3), about to begin, will make a thread."""
    reader = values.Reader(stub, memory, convention, sp)
    reader.take([kinds.WORD] * (_FLAGS + 1))
    return bool(reader.taken.words[_FLAGS] & _CLONE_THREAD)


def closes_socket(stub: RemoteStub, memory: GuestMemory, convention: Convention, sp: int) -> bool:
    """Return whether a call of closefrom(3), about to begin, will close a socket.

    The emulator's own sockets are among them, at numbers that the program does not know.
    """
    reader = values.Reader(stub, memory, convention, sp)
    reader.take([kinds.WORD])
    first = reader.taken.words[0] & 0xFFFF_FFFF
    folder = f"/proc/{memory.pid}/fd"
    try:
        return any(
            int(name) >= first and os.readlink(f"{folder}/{name}").startswith("socket:")
            for name in os.listdir(folder)
        )
    except OSError:
        return True  # not known, so assume that it does
