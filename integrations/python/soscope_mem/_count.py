# SPDX-License-Identifier: Apache-2.0
"""Counting from inside: what the functions of soscope_mem do.

Our own objects are told by the file that made them, and are left out.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc as collector
import os
import struct
import sys
from types import FrameType

from soscope_mem import _agent, _tables
from soscope_mem._agent import Agent, CountingError
from soscope_mem._lines import LineTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO, TypeVar, Union

    File = Union[str, os.PathLike[str], TextIO, None]
    Function = TypeVar("Function", bound=Callable[..., Any])
    Counts = dict[tuple[str, int, str], int]  # by file, line and type

_FIRST_ORIGIN = 2  # numbers below: no frame ran
_ENCODINGS = {0: "utf-8", 1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_UNKNOWN = "?"
_HAS_FRAMES = sys.version_info < (3, 11)  # each call has a frame object, of the caller's line
_ROW, _ORIGIN, _CODE = (
    struct.Struct(text) for text in (_tables.ROW_FORMAT, _tables.ORIGIN_FORMAT, _tables.CODE_FORMAT)
)
_name_of = type.__dict__["__name__"].__get__
_decref = ctypes.pythonapi["Py_DecRef"]
_decref.argtypes = [ctypes.c_void_p]
_decref.restype = None


class _State:
    """What this process is doing: `is_counting` since `start`, with `agent`."""

    agent: Agent | None = None
    is_counting = False


def start() -> bool:
    """Count the objects that are made from now on. Return whether that was not so before.

    Raises CountingError, with the reason, where they cannot be counted exactly.
    """
    if _State.is_counting:
        return False
    if _State.agent is None:
        _State.agent = Agent()
    answer = _State.agent.ask(_tables.BEGIN)
    if answer["state"] != _tables.COUNTING:
        raise CountingError("objects cannot be counted: the interpreter was not found")
    _State.is_counting = True
    return True


def stop() -> bool:
    """Count no more, and forget what was counted. Return whether anything was."""
    if not _State.is_counting or _State.agent is None:
        return False
    _State.is_counting = False
    _State.agent.ask(_tables.END)
    return True


def stats(file: File = None, *, gc: bool = False) -> None:
    """Write which objects were made since `start` and are alive: `COUNT FILE:LINE:TYPE`.

    Most come first. `file` is a path, whose file is replaced, or an open text file; None:
    standard output. `gc`: garbage is collected before. Raises CountingError, OSError.
    """
    if gc and _State.is_counting:
        collector.collect()
    _write(file, _look(_tables.LOOK))


def stats_clear(file: File = None) -> None:
    """Write what `stats` does, and count from now on only what is made from now on."""
    _write(file, _look(_tables.LOOK_AND_BEGIN))


class _Track:
    """A span of a program whose objects are written when it ends."""

    __slots__ = ("_file", "_has_begun", "_left_out")

    def __init__(self, file: File, left_out: tuple[int, ...] = ()) -> None:
        self._file = file
        self._left_out = left_out
        self._has_begun = False

    def __enter__(self) -> None:
        self._has_begun = start()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                _write(self._file, _look(_tables.LOOK, *self._left_out))
        finally:
            if self._has_begun:
                stop()

    def __call__(self, function: Function) -> Function:
        file = self._file

        @functools.wraps(function)
        def tracked(*args: Any, **kwargs: Any) -> Any:
            # where counting has begun before, they seem to be the caller's
            with _Track(file, (id(args), id(kwargs))):
                return function(*args, **kwargs)

        return tracked  # type: ignore[return-value]  # it has the function's own signature


def track(file: File = None) -> _Track:
    """Return what counts during a `with` block, or each call of the function that it decorates.

    It starts, writes `stats` to `file` at the end, and stops. Where counting has begun before, it
    goes on. After an exception nothing is written.
    """
    return _Track(file)


# ---- looking -----------------------------------------------------------------


def _look(order: int, *left_out: int) -> Counts:
    if not _State.is_counting or _State.agent is None:
        raise CountingError("objects are not counted: call start() first")
    if _HAS_FRAMES:
        left_out = (*left_out, *_own_frames())
    answer = _State.agent.ask(order, left_out)
    counts = _counts(answer)
    if answer["state"] != _tables.COUNTING:
        raise CountingError("objects are not counted any more: somebody else has ended it")
    if answer["lost"]:
        raise CountingError(f"there was no room for {answer['lost']} objects")
    return counts


def _own_frames() -> list[int]:
    """Return the addresses of the frame objects that calls of ours have."""
    frames = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename in _OWN_FILES:
            frames.append(id(frame))
        frame = frame.f_back
    return frames


def _counts(answer: dict[str, int]) -> Counts:
    origins = _Origins(answer)
    counts: Counts = {}
    data = ctypes.string_at(answer["rows"], answer["row_count"] * _ROW.size)
    for kind, count, origin, _ in _ROW.iter_unpack(data):
        name = _UNKNOWN
        if kind:
            name = _name_of(ctypes.cast(kind, ctypes.py_object).value)
            _decref(kind)
        place = origins.place(origin)
        if place[0] not in _OWN_FILES:
            counts[(*place, name)] = counts.get((*place, name), 0) + count
    return counts


class _Origins:
    """The places in code where objects were made, by the agent's numbers."""

    __slots__ = ("_at", "_codes", "_count", "_places")

    def __init__(self, answer: dict[str, int]) -> None:
        self._at = answer["origins"]
        self._count = answer["origin_count"]
        self._places: dict[int, tuple[str, int]] = {}
        self._codes: dict[int, tuple[str, LineTable]] = {}

    def place(self, number: int) -> tuple[str, int]:
        """Return file and line of an origin; `?` and 0 where no code of Python ran."""
        if not _FIRST_ORIGIN <= number < self._count:
            return _UNKNOWN, 0
        if number not in self._places:
            data = ctypes.string_at(self._at + number * _ORIGIN.size, _ORIGIN.size)
            fields = dict(zip(_tables.ORIGIN_FIELDS, _ORIGIN.unpack(data)))
            file, table = self._code(fields["copy"])
            self._places[number] = file, table.line(fields["instr"])
        return self._places[number]

    def _code(self, at: int) -> tuple[str, LineTable]:
        if at not in self._codes:
            head = ctypes.string_at(at, _CODE.size)
            code = dict(zip(_tables.CODE_FIELDS, _CODE.unpack(head)))
            ends = code["file_size"], code["file_size"] + code["name_size"]
            rest = ctypes.string_at(at + _CODE.size, ends[1] + code["lines_size"])
            encoding = _ENCODINGS.get(code["file_width"], "latin-1")
            file = rest[: ends[0]].decode(encoding, "replace")
            self._codes[at] = file, LineTable(rest[ends[1] :], code["first_line"])
        return self._codes[at]


def _write(file: File, counts: Counts) -> None:
    rows = sorted((-count, *key) for key, count in counts.items())
    text = "".join(f"{-less:7d} {path}:{line}:{kind}\n" for less, path, line, kind in rows)
    if file is None:
        file = sys.stdout
    if hasattr(file, "write"):  # isinstance would leave objects of abc's behind
        file.write(text)
        return
    with open(file, "w", encoding="utf-8", errors="backslashreplace") as made:
        made.write(text)


_OWN_FILES = {
    code.co_filename
    for code in (
        start.__code__,
        Agent.ask.__code__,
        _agent._resident.__code__,
        LineTable.line.__code__,
    )
}
# the interpreter takes itself apart without us
atexit.register(stop)
