# SPDX-License-Identifier: Apache-2.0
"""What a request of a web application costs: one line of JSON for each, whatever the protocol.

All that is counted is the process's: a line says so, and how many other requests it has overlapped
with.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from _thread import allocate_lock

from soscope_mem import _made
from soscope_mem._agent import CountingError
from soscope_mem._count import alive, begin_anew, ours
from soscope_mem._ownfile import opener
from soscope_mem._trace import meter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from soscope_mem._count import Counts, File
    from soscope_mem._trace import Groups

ROWS = 20


class _Requests:
    """The requests that are under way in this process."""

    __slots__ = ("has_hooks", "lock", "under_way")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew in a child: it has no threads but the one that has forked, if that serves."""
        self.lock = allocate_lock()
        self.under_way: list[Request] = []
        self.has_hooks = False

    def enter(self, request: Request) -> None:
        """Take a request in that begins. Counting goes on until the last one is out."""
        with self.lock:
            if not self.has_hooks:
                self.has_hooks = True
                meter().stay()
            if not self.under_way:
                _begin_objects()
            request._overlapped = len(self.under_way)
            for other in self.under_way:
                other._overlapped += 1
            meter().open()
            self.under_way.append(request)

    def leave(self, request: Request) -> dict[str, Any]:
        """Let go of one that ends. Return which objects are alive."""
        with self.lock:
            objects = _objects()
            meter().close()
            self.under_way.remove(request)
        return objects


class Request:
    """One request, from its making to `end`; `about` says which it is, and is completed."""

    __slots__ = ("_file", "_force_gc", "_overlapped", "_pid", "_span", "_was", "_when", "about")

    def __init__(self, about: dict[str, Any], file: File, force_gc: bool) -> None:
        self.about = about
        self._file = file
        self._force_gc = force_gc
        self._overlapped = 0
        self._pid = os.getpid()
        _STATE.enter(self)
        self._when = time.time()
        self._was = time.perf_counter()
        self._span = meter().begin()

    def end(self, error: BaseException | None = None) -> None:
        """Write the line. `error` is what has ended the request early."""
        if os.getpid() != self._pid:
            return  # a forked child: the request is its parent's
        groups = self._span.end()
        seconds = time.perf_counter() - self._was
        del groups["time"]
        if error is not None:
            self.about["exception"] = type(error).__qualname__
        if self._force_gc:
            gc.collect()
        objects = _STATE.leave(self)
        groups = {"objects": {**groups.pop("objects", {}), **objects}, **groups}
        _write(self._file, line(self.about, self._when, seconds, self._overlapped, groups))


def line(
    about: dict[str, Any], when: float, seconds: float, overlapped: int, groups: Groups
) -> str:
    """Return the line of one request.

    `when` is its beginning, in seconds since 1970. `groups` are what was counted meanwhile, by
    name: in the whole process, and the line says so.
    """
    head = {"start": round(when, 6), "request": about, "seconds": round(seconds, 9)}
    return json.dumps({**head, "overlapped": overlapped, "counted": "process", **groups}) + "\n"


def _begin_objects() -> None:
    try:
        begin_anew()
    except CountingError:
        pass  # the request is none the worse for it, and its line will say so


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


def _write(file: Any, text: str) -> None:
    """Append a line; whole, whoever else writes into the same file.

    See `_ownfile` for what files are refused.
    """
    file = sys.stdout if file is None else file
    try:
        if hasattr(file, "write"):
            file.write(text)
        else:
            out = opener(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
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
_made.own(Request.end.__code__.co_filename)
