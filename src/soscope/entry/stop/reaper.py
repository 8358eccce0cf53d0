# SPDX-License-Identifier: Apache-2.0
"""The end of traced threads is taken note of while their tracer cannot.

Who executes a program waits until the process's other threads have ended, and for that until
their tracer has heard of it. But ptrace(2) lets that one wait for the new program when it is
about to seize one more thread, and no signal wakes it: both would wait for ever. And the end of
a process's first thread is told to nobody before that of all others has been waited for: who
waits for it alone, because it was borrowed, would wait for ever, too.

The same holds for threads that are killed while they are let go of: who was let go of before
them may have executed a program already.
"""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Collection

from soscope.entry import ptrace

_PATIENCE = 0.02  # seconds before a tracer is taken to be stuck
_SOON = 0.005  # seconds that the end of a killed thread is waited for
_LATE = 60.0  # seconds after which nobody executes a program any more
_PAUSE = 0.0002
_ENDED = os.WEXITED | os.WNOHANG | ptrace.WALL

_ENDS = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


class Reaper:
    """Those of `tids` that end are waited for by a thread of its own, until `end` is called.

    It does so from time to time, and takes note of nothing but their end. `tids` may change; the
    thread that makes a reaper is their tracer.
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
            pass  # no thread can be made: it would hardly ever be needed

    def end(self) -> None:
        """Wait for nobody any more; to be called once."""
        self._done.release()

    def _work(self) -> None:
        while not self._done.acquire(timeout=_PATIENCE):
            if _has_any_ended():  # to ask each of thousands takes long
                for tid in list(self._tids):
                    _take_end(tid, self._tracer)


def bury(tids: list[int]) -> None:
    """Take note of the end of traced threads that were killed, also where it is yet to come.

    Who has executed a program may have the number of one of them, and its end is its parent's to
    hear of: which may be soscope, or what runs it.
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
    """Take note of the end of a thread that `tracer` traces; return false if it has not ended.

    A stop of the thread is left alone. A process that has executed a program may have the number
    of a thread that was killed, and somebody may wait for its stop. wait(2) tells the stops of a
    traced thread even if nobody asks for them.
    """
    try:
        end = os.waitid(os.P_PID, tid, _ENDED | os.WNOWAIT)
        if end is None:
            return False
        if end.si_code in _ENDS and is_traced(tid, tracer):
            os.waitid(os.P_PID, tid, _ENDED)
    except OSError:
        pass  # somebody else has waited for it: it is gone all the same
    return True
