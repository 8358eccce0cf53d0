# SPDX-License-Identifier: Apache-2.0
"""Dumps: the objects themselves, one a line, in JSON. A child writes them: see _child."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
from _json import encode_basestring_ascii as quoted
from opcode import opname
from types import MethodType

from soscope_mem import _child, _tables
from soscope_mem._agent import Agent, CountingError
from soscope_mem._child import Child
from soscope_mem._count import OWN_FILES, State, begin_span, end_span, frames_of_ours, ours
from soscope_mem._object import Describer
from soscope_mem._origins import UNKNOWN, Origins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from soscope_mem._count import File

IN_PROGRESS = ".IN_PROGRESS"
_NOWHERE = '"file":null,"line":0'
_UNIT = 2  # bytes of an operation
_PASSED = ("CACHE", "COPY", "EXTENDED_ARG", "NOP")
_ENTERS = ("SETUP_WITH", "BEFORE_WITH", "LOAD_SPECIAL")
_LEAVES = ("POP_TOP", "RETURN_VALUE", "PRINT_EXPR", "CALL_INTRINSIC_1", "INTERPRETER_EXIT")
_AT_ONCE = 1 << 16  # characters
_MODE = 0o600  # whoever reads it reads what the program has in its memory


class _Dump:
    """A span of a program whose objects are written when it ends."""

    __slots__ = ("_file", "_gc")

    def __init__(self, file: File, gc: bool) -> None:
        self._file = file
        self._gc = gc

    def __enter__(self) -> None:
        begin_span(self)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                _write(self._file, 0, self._gc)
        finally:
            end_span(self)


def dump(file: File = None, *, gc: bool = False) -> _Dump | None:
    """Write the objects that were made since `start` and are alive, one a line, in JSON.

    `with dump(file):` counts during the block and writes what it has left at its end; after an
    exception nothing is written. `file` is a path, which is there when the dump is whole, or an
    open text file; None: standard output. `gc`: without garbage that is not collected yet.
    Raises CountingError, OSError.
    """
    follows = _what_follows(sys._getframe(1))
    if follows in _ENTERS or (not State.is_counting and follows not in _LEAVES):
        return _Dump(file, gc)
    if not State.is_counting:
        raise CountingError("objects are not counted: call start() first")
    _write(file, 0, gc)
    return None


def dump_all(file: File = None, *, gc: bool = False) -> None:
    """Write all objects that there are, one a line, in JSON; `start` is not needed.

    Those that were made since objects are counted have a file and a line. The arguments are those
    of `dump`. Raises CountingError, OSError.
    """
    _write(file, _tables.DUMP_ALL, gc)


def _what_follows(frame: FrameType) -> str:
    """Return the operation behind the call that a frame is in: what becomes of the result."""
    for operation in frame.f_code.co_code[frame.f_lasti + _UNIT :: _UNIT]:
        if opname[operation] not in _PASSED:
            return opname[operation]
    return ""


# ---- in the program ----------------------------------------------------------


def _write(file: File, flags: int, gc: bool) -> None:
    # What is made here is in no dump, though objects may not be counted: `ours` names it.
    flags |= _tables.DUMP_REACHABLE if gc else 0
    if file is None:
        file = sys.stdout
    if hasattr(file, "write"):
        _write_through(file, flags)
        return
    path = os.fspath(file)
    said, tell = os.pipe()
    try:
        try:
            write_apart(path, flags, tell)
        finally:
            os.close(tell)
        _check(_rest(said), path)
    finally:
        os.close(said)


def write_apart(path: str | bytes, flags: int, tell: int = -1) -> None:
    """Have a child write objects into a file, which has another name until it is whole.

    The child says on the descriptor `tell` how that went. Raises CountingError, OSError.
    """
    _fork(_Work(path, -1, tell), flags, (tell,))


def _write_through(file: Any, flags: int) -> None:
    """Have a child send lines, and pass them on to a file of the program's."""
    text, out = os.pipe()
    said, tell = os.pipe()
    try:
        try:
            _fork(_Work(None, out, tell), flags, (out, tell))
        finally:
            os.close(out)
            os.close(tell)
        decode = codecs.getincrementaldecoder("ascii")().decode
        while data := os.read(text, _AT_ONCE):
            file.write(decode(data))
        _check(_rest(said), None)
    finally:
        os.close(text)
        os.close(said)


def _fork(work: _Work, flags: int, keep: tuple[int, ...]) -> None:
    if State.agent is None:
        State.agent = Agent()
    _child.fork(State.agent, flags, work, keep, frames_of_ours())


def _rest(said: int) -> bytes:
    data = b""
    while more := os.read(said, _AT_ONCE):
        data += more
    return data


def _check(said: bytes, path: str | bytes | None) -> None:
    if said == b"whole":
        return
    kind, _, text = said.decode("utf-8", "replace").partition(" ")
    if kind.isdigit():
        raise OSError(int(kind), os.strerror(int(kind)), path)
    raise CountingError(text or "the process that writes the objects has come to an early end")


# ---- in the child ------------------------------------------------------------


class _Work:
    """What the child does: it writes into a file at `path`, or to the descriptor `out`.

    It says on `tell` how it has ended: `whole`, the number of an error, or `- ` and a text.
    """

    __slots__ = ("out", "path", "tell")

    def __init__(self, path: str | bytes | None, out: int, tell: int) -> None:
        self.path = path
        self.out = out
        self.tell = tell

    def __call__(self, child: Child) -> None:
        try:
            if self.path is not None:
                _write_aside(child, os.fsdecode(self.path))
            else:
                _write_lines(child, self.out)
            self._say(b"whole")
        except OSError as error:
            self._say(b"%d" % (error.errno or 0))
        except Exception as error:  # noqa: BLE001 # the program is to hear of any
            text = f"- the objects cannot be written: {error!r}"
            self._say(text.encode("utf-8", "replace"))

    def _say(self, text: bytes) -> None:
        if self.tell >= 0:
            os.write(self.tell, text)


def _write_aside(child: Child, path: str) -> None:
    aside = path + IN_PROGRESS
    with contextlib.suppress(FileNotFoundError):  # most often nobody has left one
        os.unlink(aside)
    out = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        _write_lines(child, out)
        os.close(out)
        os.rename(aside, path)
    except OSError:
        with contextlib.suppress(OSError):  # the error that is told is the first one
            os.unlink(aside)
        raise


def _write_lines(child: Child, out: int) -> None:
    if child.lost:
        raise CountingError(f"there was no room for {child.lost} objects")
    origins = Origins().hear({"origins": child.origins, "origin_count": child.origin_count})
    places: dict[int, str | None] = {}
    describer = Describer()
    lines: list[str] = []
    size = 0
    for value, origin, whole in child.objects():
        if origin not in places:
            places[origin] = _place(*origins.place(origin))
        place = places[origin]
        if place is None or _is_ours(value):
            continue
        line = describer.line(value, place, whole)
        lines.append(line)
        size += len(line)
        if size >= _AT_ONCE:
            _send(out, lines)
            size = 0
    _send(out, lines)


def _is_ours(value: object) -> bool:
    # `with` keeps both
    return type(value) is _Dump or (type(value) is MethodType and type(value.__self__) is _Dump)


def _place(file: str, line: int) -> str | None:
    """Return the JSON of file and line, None where it is a file of ours."""
    if file in OWN_FILES:
        return None
    return _NOWHERE if (file, line) == (UNKNOWN, 0) else f'"file":{quoted(file)},"line":{line}'


def _send(out: int, lines: list[str]) -> None:
    data = memoryview("".join(lines).encode("ascii"))
    while data:
        data = data[os.write(out, data) :]
    lines.clear()


ours(dump, _child.fork, Describer.line)
