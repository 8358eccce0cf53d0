# SPDX-License-Identifier: Apache-2.0
"""Reap traced threads as they end, while their tracer is blocked.

A thread that calls execve waits until the process's other threads have ended, and until their
tracer has reaped them. But if that tracer seizes one more thread, ptrace(2) makes it wait for the
new program, and no signal wakes it. Both would wait for ever. Moreover, the end of a process's
first thread is not reported before all others have been reaped. A tracer that only waits for the
first thread, because it has borrowed that one, would also wait for ever.

The same holds for threads that are killed while they are being detached, because a thread that
was detached before them may have called execve already.
"""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Collection

from soscope.entry import ptrace

_PATIENCE = 0.02  # seconds after which a tracer is regarded as blocked
_SOON = 0.005  # seconds to wait for the end of a killed thread
_LATE = 60.0  # seconds after which no thread calls execve any more
_PAUSE = 0.0002
_ENDED = os.WEXITED | os.WNOHANG | ptrace.WALL

_ENDS = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


class Reaper:
    """Waits in its own thread for those of `tids` that end, until `end` is called.

    It looks periodically, and takes only their ends. `tids` may change. The thread that makes a
    reaper is their tracer.
    """

    __slots__ = ("_done", "_tids", "_tracer")

    def __init__(self, tids: Collection[int]) -> None:
        self._tids = tids
        self._tracer = _thread.get_native_id()
        self._done = _thread.allocate_lock()
        self._done.acquire()
        try:
            _thread.start_new_thread(self._work, ())
        except RuntimeError:
            pass  # no thread available, and it is hardly ever needed

    def end(self) -> None:
        """Stop waiting for threads. Call this once."""
        self._done.release()

    def _work(self) -> None:
        while not self._done.acquire(timeout=_PATIENCE):
            if _has_any_ended():  # asking each of thousands takes long
                for tid in list(self._tids):
                    _take_end(tid, self._tracer)


def bury(tids: list[int]) -> None:
    """Reap traced threads that were killed, even if their end is yet to come.

    A process that has called execve may have the number of one of them. Its end must be left to
    its parent, which may be soscope, or the caller of soscope.
    """
    tracer = _thread.get_native_id()
    end = time.monotonic() + _SOON
    left = tids
    while left := [tid for tid in left if is_traced(tid, tracer) and not _take_end(tid, tracer)]:
        if time.monotonic() > end:
            try:
                _thread.start_new_thread(_bury_later, (left, tracer))
            except RuntimeError:
                _bury_later(left, tracer)
            return
        time.sleep(_PAUSE)


def _bury_later(tids: list[int], tracer: int) -> None:
    end = time.monotonic() + _LATE
    while tids and time.monotonic() < end:
        time.sleep(_PATIENCE)
        tids = [tid for tid in tids if is_traced(tid, tracer) and not _take_end(tid, tracer)]


def _has_any_ended() -> bool:
    try:
        return os.waitid(os.P_ALL, 0, _ENDED | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def is_traced(tid: int, tracer: int) -> bool:
    """Return whether a thread is traced by the thread `tracer`."""
    try:
        with open(f"/proc/{tid}/status", "rb", buffering=0) as file:
            return b"\nTracerPid:\t%d\n" % tracer in file.read(4096)
    except OSError:
        return False


def _take_end(tid: int, tracer: int) -> bool:
    """Reap a thread that `tracer` traces, if it has ended. Return False if it has not ended.

    A stop of the thread is not taken. A process that has called execve may have the number of a
    killed thread, and another part of soscope may wait for its stop. wait(2) reports the stops of
    a traced thread even if they are not asked for.
    """
    try:
        end = os.waitid(os.P_PID, tid, _ENDED | os.WNOWAIT)
        if end is None:
            return False
        if end.si_code in _ENDS and is_traced(tid, tracer):
            os.waitid(os.P_PID, tid, _ENDED)
    except OSError:
        pass  # the thread was reaped elsewhere, so it is gone
    return True
