# SPDX-License-Identifier: Apache-2.0
"""Work that must not stop in the middle, in a process of its own.

While threads of a process stand still, and one of them has registers of ours, a SIGKILL to
soscope would be the end of that process: the kernel lets its threads run on as they are. A
child does such work; it takes milliseconds, and nobody knows it to kill it. When soscope is
gone, the child finishes what it has begun.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable

from soscope.errors import NoSuchProcess, NotPermitted, SoscopeError
from soscope.process.reasons import Refused
from soscope.process.tracee import Gone
from soscope.process.visit import Executed

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any

    # What marshal can carry: numbers, text, bytes, tuples and lists of them.
    Plain = tuple[Any, ...]
    Failure = tuple[str, str, str | None, int | None]

_PIECE = 1 << 16


def guarded(work: Callable[[], Plain]) -> Plain:
    """Do `work` in a child, and return its result.

    Raises what it raises: Refused, Executed, NoSuchProcess, NotPermitted, OSError, and
    SoscopeError for everything else. Where no process can be made the work is done here.
    """
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        return work()
    if not child:
        os.close(reading)
        _be_the_child(work, writing)
    os.close(writing)
    try:
        data = _read_all(reading)
    finally:
        os.close(reading)
        _reap(child)
    if not data:
        raise SoscopeError("the process that does the work was killed")
    is_done, value = marshal.loads(data)  # noqa: S302  our own child wrote it
    if not is_done:
        raise _error(value)
    result: Plain = value
    return result


def _be_the_child(work: Callable[[], Plain], writing: int) -> None:
    try:
        os.setpgid(0, 0)  # what a terminal sends is for soscope
        try:
            data = marshal.dumps((True, work()))
        except BaseException as error:  # noqa: BLE001  raised in the parent
            data = marshal.dumps((False, _plain(error)))
        while data:
            data = data[os.write(writing, data) :]
    except OSError:
        pass  # soscope is gone
    finally:
        os._exit(0)


def _read_all(reading: int) -> bytes:
    data = b""
    while piece := os.read(reading, _PIECE):
        data += piece
    return data


def _reap(child: int) -> None:
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        pass  # somebody else's handler of SIGCHLD has


def _plain(error: BaseException) -> Failure:
    if isinstance(error, Refused):
        return type(error).__name__, error.reason, None, None
    if isinstance(error, SoscopeError):
        return type(error).__name__, error.message, error.hint, error.errno
    if isinstance(error, OSError):
        return "OSError", error.strerror or str(error), None, error.errno
    return type(error).__name__, str(error), None, None


def _error(failure: Failure) -> Exception:
    kind, text, hint, number = failure
    if kind == "Executed":
        return Executed(text)
    if kind == "NoSuchProcess":
        return NoSuchProcess(text, hint=hint, errno=number)
    if kind == "NotPermitted":
        return NotPermitted(text, hint=hint, errno=number)
    if kind == Gone.__name__:
        return NoSuchProcess("the process has ended")
    if kind == "OSError":
        return OSError(number or 0, text)
    if kind in ("Refused", "StartFault"):
        return Refused(text)
    return SoscopeError(f"{kind}: {text}", hint=hint, errno=number)
