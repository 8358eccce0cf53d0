# SPDX-License-Identifier: Apache-2.0
"""What a request of a web application costs: one line of JSON for each, whatever the protocol.

All that is counted is the process's: a line says how many other requests it has overlapped with.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from _thread import allocate_lock

from soscope_mem._agent import CountingError
from soscope_mem._count import alive, begin_anew, ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from soscope_mem._count import Counts, File

ROWS = 20
_USED = {
    "user_seconds": "ru_utime",
    "system_seconds": "ru_stime",
    "minor_faults": "ru_minflt",
    "major_faults": "ru_majflt",
    "inputs": "ru_inblock",
    "outputs": "ru_oublock",
    "voluntary_switches": "ru_nvcsw",
    "involuntary_switches": "ru_nivcsw",
}


class _Garbage:
    """What the collector has done in this process since it is listened to."""

    __slots__ = ("began", "collected", "collections", "seconds")

    def __init__(self) -> None:
        self.began = 0.0
        self.collections = self.collected = 0
        self.seconds = 0.0

    def hear(self, phase: str, what: dict[str, int]) -> None:
        """Hear of a collection; one of gc.callbacks."""
        if phase == "start":
            self.began = time.perf_counter()
        elif self.began:
            self.seconds += time.perf_counter() - self.began
            self.collections += 1
            self.collected += what["collected"]
            self.began = 0.0

    def now(self) -> dict[str, float]:
        """Return what there was so far."""
        return {
            "collections": self.collections,
            "seconds": self.seconds,
            "collected": self.collected,
        }


class _Requests:
    """The requests that are under way in this process, and what is known meanwhile."""

    __slots__ = ("garbage", "lock", "under_way")

    def __init__(self) -> None:
        self.garbage = _Garbage()
        self.forget()

    def forget(self) -> None:
        """Begin anew in a child: it has no threads but the one that has forked, if that serves."""
        self.lock = allocate_lock()
        self.under_way: list[Request] = []


class Request:
    """One request, from its making to `end`; `about` says which it is, and is completed."""

    __slots__ = ("_file", "_force_gc", "_garbage", "_overlapped", "_used", "_was", "_when", "about")

    def __init__(self, about: dict[str, Any], file: File, force_gc: bool) -> None:
        self.about = about
        self._file = file
        self._force_gc = force_gc
        with _STATE.lock:
            if not _STATE.under_way:
                _listen()
                begin_anew()
            self._overlapped = len(_STATE.under_way)
            for other in _STATE.under_way:
                other._overlapped += 1
            _STATE.under_way.append(self)
        self._garbage = _STATE.garbage.now()
        self._used = _used()
        self._when = time.time()
        self._was = time.perf_counter()

    def end(self, error: BaseException | None = None) -> None:
        """Write the line. `error` is what has ended the request early."""
        seconds = time.perf_counter() - self._was
        groups: dict[str, Any] = {
            "gc": _since(_STATE.garbage.now(), self._garbage),
            "resources": _since(_used(), self._used),
        }
        if error is not None:
            self.about["exception"] = type(error).__qualname__
        if self._force_gc:
            gc.collect()
        with _STATE.lock:
            groups["objects"] = _objects()
            if self in _STATE.under_way:
                _STATE.under_way.remove(self)
        _write(self._file, line(self.about, self._when, seconds, self._overlapped, groups))


def line(
    about: dict[str, Any], when: float, seconds: float, overlapped: int, groups: dict[str, Any]
) -> str:
    """Return the line of one request.

    `when` is its beginning, in seconds since 1970. `groups` are what was counted, by name:
    whoever counts something else adds a group.
    """
    head = {"start": round(when, 6), "request": about, "seconds": round(seconds, 9)}
    return json.dumps({**head, "overlapped": overlapped, **groups}) + "\n"


def _objects() -> dict[str, Any]:
    try:
        counts = alive()
    except CountingError as error:
        return {"error": str(error)}
    return _rows(counts)


def _rows(counts: Counts) -> dict[str, Any]:
    rows = sorted(((count, *key) for key, count in counts.items()), key=_most_first)
    names = ("count", "file", "line", "type")
    return {
        "alive": sum(counts.values()),
        "rows": [dict(zip(names, row)) for row in rows[:ROWS]],
        "rows_left_out": max(0, len(rows) - ROWS),
    }


def _most_first(row: tuple[int, str, int, str]) -> tuple[int, str, int, str]:
    return (-row[0], *row[1:])


def _used() -> dict[str, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {name: getattr(used, field) for name, field in _USED.items()}


def _since(now: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: round(now[name] - before[name], 9) for name in now}


def _listen() -> None:
    if _STATE.garbage.hear not in gc.callbacks:
        gc.callbacks.append(_STATE.garbage.hear)


def _write(file: Any, text: str) -> None:
    """Append a line; whole, whoever else writes into the same file."""
    file = sys.stdout if file is None else file
    try:
        if hasattr(file, "write"):
            file.write(text)
        else:
            out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            try:
                os.write(out, text.encode())
            finally:
                os.close(out)
    except OSError as error:
        # the request is none the worse for it
        sys.stderr.write(f"soscope_mem: cannot write to {file}: {error.strerror}\n")


_STATE = _Requests()
os.register_at_fork(after_in_child=_STATE.forget)
ours(Request.end)
