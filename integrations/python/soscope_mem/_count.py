# SPDX-License-Identifier: Apache-2.0
"""Counting from inside: what the functions of soscope_mem do.

Our own objects are told by the file that made them, and are left out.
"""

from __future__ import annotations

import atexit
import ctypes
import gc as collector
import os
import struct
import sys
from types import FrameType

from soscope_mem import _tables
from soscope_mem._agent import Agent, CountingError
from soscope_mem._lines import LineTable
from soscope_mem._origins import UNKNOWN, Origins
from soscope_mem._ownfile import opener
from soscope_mem._spans import OpenSpans, decorated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO, Union

    from soscope_mem._spans import Function

    File = Union[str, os.PathLike[str], TextIO, None]
    Counts = dict[tuple[str, int, str], int]  # by file, line and type

_HAS_FRAMES = sys.version_info < (3, 11)  # each call has a frame object, of the caller's line
_ROW = struct.Struct(_tables.ROW_FORMAT)
_name_of = type.__dict__["__name__"].__get__
_decref = ctypes.pythonapi["Py_DecRef"]
_decref.argtypes = [ctypes.c_void_p]
_decref.restype = None


class State:
    """What this process is doing: `is_counting` since `start`, with `agent`.

    `is_of_spans`: it ends behind the last one of the open `spans`, the first of which has begun it.
    """

    agent: Agent | None = None
    is_counting = False
    is_of_spans = False
    spans = OpenSpans()
    origins = Origins()


def start() -> bool:
    """Count the objects that are made from now on. Return whether that was not so before.

    Raises CountingError, with the reason, where they cannot be counted exactly.
    """
    if State.is_counting:
        return False
    if State.agent is None:
        State.agent = Agent()
    answer = State.agent.ask(_tables.BEGIN)
    if answer["state"] != _tables.COUNTING:
        raise CountingError("objects cannot be counted: the interpreter was not found")
    State.is_counting = True
    State.is_of_spans = False
    return True


def stop() -> bool:
    """Count no more, and forget what was counted. Return whether anything was."""
    if not State.is_counting or State.agent is None:
        return False
    State.is_counting = False
    State.agent.ask(_tables.END)
    return True


def stats(file: File = None, *, gc: bool = False) -> None:
    """Write which objects were made since `start` and are alive: `COUNT FILE:LINE:TYPE`.

    Most come first. `file` is a path, whose file is replaced, or an open text file; None:
    standard output. `gc`: garbage is collected before. Raises CountingError, OSError.
    """
    if gc and State.is_counting:
        collector.collect()
    _write(file, _look(_tables.LOOK))


def stats_clear(file: File = None) -> None:
    """Write what `stats` does, and count from now on only what is made from now on."""
    _write(file, _look(_tables.LOOK_AND_BEGIN))


def begin_anew() -> None:
    """Count, and that only what is made from now on. Raises CountingError."""
    if not start() and State.agent is not None:
        State.agent.ask(_tables.BEGIN)


def alive() -> Counts:
    """Return how many objects were made by which line since then and are alive.

    Raises CountingError.
    """
    return _look(_tables.LOOK)


def begin_span(span: object) -> None:
    """Begin a span; it counts. Raises CountingError."""
    State.spans.begin(span, _start_for_spans)


def end_span(span: object) -> None:
    """End a span; behind the last one nothing counts any more, unless it did before the first."""
    State.spans.end(span, _stop_for_spans)


def _start_for_spans() -> None:
    if start():
        State.is_of_spans = True


def _stop_for_spans() -> None:
    if State.is_of_spans:
        stop()


class _Track:
    """A span of a program whose objects are written when it ends."""

    __slots__ = ("_file", "_left_out")

    def __init__(self, file: File, left_out: tuple[int, ...] = ()) -> None:
        self._file = file
        self._left_out = left_out

    def __enter__(self) -> None:
        begin_span(self)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                _write(self._file, _look(_tables.LOOK, *self._left_out))
        finally:
            end_span(self)

    def __call__(self, function: Function) -> Function:
        # where counting has begun before, arguments seem to be the caller's
        return decorated(function, lambda arguments: _Track(self._file, arguments))


def track(file: File = None) -> _Track:
    """Return what counts during a `with` block, or each call of the function that it decorates.

    It starts, writes `stats` to `file` at the end, and stops. Where counting has begun before, it
    goes on. After an exception nothing is written.
    """
    return _Track(file)


# ---- looking -----------------------------------------------------------------


def _look(order: int, *left_out: int) -> Counts:
    if not State.is_counting or State.agent is None:
        raise CountingError("objects are not counted: call start() first")
    answer = State.agent.ask(order, [*left_out, *frames_of_ours()])
    counts = _counts(answer)
    if answer["state"] != _tables.COUNTING:
        raise CountingError("objects are not counted any more: somebody else has ended it")
    if answer["lost"]:
        raise CountingError(f"there was no room for {answer['lost']} objects")
    return counts


def frames_of_ours() -> list[int]:
    """Return the addresses of the frame objects that calls of ours have."""
    frames: list[int] = []
    for innermost in sys._current_frames().values() if _HAS_FRAMES else ():
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_code.co_filename in OWN_FILES:
                frames.append(id(frame))
            frame = frame.f_back
    return frames


def _counts(answer: dict[str, int]) -> Counts:
    origins = State.origins.hear(answer)
    counts: Counts = {}
    data = ctypes.string_at(answer["rows"], answer["row_count"] * _ROW.size)
    for kind, count, origin, _ in _ROW.iter_unpack(data):
        name = UNKNOWN
        if kind:
            name = _name_of(ctypes.cast(kind, ctypes.py_object).value)
            _decref(kind)
        place = origins.place(origin)
        if place[0] not in OWN_FILES:
            counts[(*place, name)] = counts.get((*place, name), 0) + count
    origins.rest()
    return counts


def _write(file: File, counts: Counts) -> None:
    rows = sorted((-count, *key) for key, count in counts.items())
    text = "".join(f"{-less:7d} {path}:{line}:{kind}\n" for less, path, line, kind in rows)
    if file is None:
        file = sys.stdout
    if hasattr(file, "write"):  # isinstance would leave objects of abc's behind
        file.write(text)
        return
    with open(file, "w", encoding="utf-8", errors="backslashreplace", opener=opener) as made:
        made.write(text)


OWN_FILES: set[str] = set()  # of modules of this package


def ours(*functions: Any) -> None:
    """See to it that what the files of these functions make is not the program's."""
    OWN_FILES.update(function.__code__.co_filename for function in functions)


ours(start, decorated, Agent.ask, LineTable.line, Origins.place, opener)
# the interpreter takes itself apart without us
atexit.register(stop)
