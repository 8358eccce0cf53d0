# SPDX-License-Identifier: Apache-2.0
"""Stop traced threads for another process of soscope, which is not their tracer.

The tracer stops a thread, reports its registers to the asking process, and lets the thread go on
when that process has looked at it or has ended (`entry/stop/moments.py`).
"""

from __future__ import annotations

import _socket
import os

from soscope.control.task import Task
from soscope.entry import ptrace
from soscope.entry.stop.moments import ASK, GONE, MOST, REFUSED, STOPPED, WORDS, rings
from soscope.entry.stop.rest import NONE, TRAP, Rests, Stopped, mended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class StopServer:
    """Serves one asking process, whose messages raise SIGCHLD in this process.

    `resume` lets a stopped thread go on, with a signal. Only the tracing thread may use this.
    """

    def __init__(
        self, asker: _socket.socket, tasks: dict[int, Task], resume: Callable[[int, int], object]
    ) -> None:
        """Prepare to serve. `tasks` maps the numbers of the traced threads to them."""
        self._link = asker
        self._tasks = tasks
        self._resume = resume
        self._rests = Rests(resume)
        self._asked: set[int] = set()
        self._held: dict[int, Stopped] = {}
        self._is_open = True
        asker.setblocking(False)
        rings(asker)

    def serve(self) -> bool:
        """Handle the requests of the asking process. Return whether there were any."""
        if not self._is_open:
            return False
        for tid in [tid for tid in self._asked if tid not in self._tasks]:
            self._answer(GONE, tid)  # the thread's process executes another program
        has_served = False
        while (packet := self._packet()) is not None:
            has_served = True
            if not packet:
                self._leave()
                break
            what, tid = WORDS.unpack(packet)
            if what == ASK:
                self._ask(tid)
            elif (stopped := self._held.pop(tid, None)) is not None:
                self._rests.release(stopped)
        return has_served

    def take(self, task: Task, how: int) -> bool:
        """Take a wait status of a thread. Return True if it concerned a requested stop.

        `task.stopped` is then the signal of a group stop that the thread is in, or 0.
        """
        tid = task.tid
        self._held.pop(tid, None)
        if tid in self._rests:
            if os.WIFSTOPPED(how) and how >> 16 == ptrace.EVENT_STOP:
                task.stopped = 0 if os.WSTOPSIG(how) == TRAP else os.WSTOPSIG(how)
            self._rests.take(tid, how)
            return os.WIFSTOPPED(how)
        if tid not in self._asked:
            return False
        is_ours = os.WIFSTOPPED(how) and (how >> 16, os.WSTOPSIG(how)) == (ptrace.EVENT_STOP, TRAP)
        if not is_ours or task.put_in is not None or task.stopped:
            self._answer(GONE, tid)
            return False
        try:
            stopped = Stopped(tid, NONE, mended(tid))
        except OSError:
            self._answer(GONE, tid)
            return True  # it was killed
        self._held[tid] = stopped
        if not self._answer(STOPPED, tid, bytes(stopped.registers)):
            self._rests.release(self._held.pop(tid))
        return True

    def close(self) -> None:
        """Resume all threads that are stopped for the asking process, and serve no more."""
        self._is_open = False
        self._leave()
        self._rests.close()

    def _leave(self) -> None:
        self._is_open = False
        self._asked.clear()
        while self._held:
            self._rests.release(self._held.popitem()[1])

    def _ask(self, tid: int) -> None:
        task = self._tasks.get(tid)
        self._asked.add(tid)
        if task is None or task.put_in is not None or task.stopped or tid in self._rests:
            self._answer(GONE, tid)  # the thread is new or must not be disturbed
        elif not task.is_seized:
            self._answer(REFUSED, tid)
        else:
            try:
                ptrace.interrupt(tid)
            except OSError:
                self._answer(GONE, tid)  # the process or thread has ended

    def _answer(self, what: int, tid: int, registers: bytes = b"") -> bool:
        self._asked.discard(tid)
        try:
            self._link.send(WORDS.pack(what, tid) + registers, _socket.MSG_NOSIGNAL)
        except OSError:
            return False  # the asker has ended or reads nothing
        return True

    def _packet(self) -> bytes | None:
        try:
            return self._link.recv(MOST)
        except BlockingIOError:
            return None  # no further request
        except OSError:
            return b""  # the process or thread has ended
