# SPDX-License-Identifier: Apache-2.0
"""A dump of all objects for each SIGURG that the process gets, for programs that are at work.

>>> import soscope_mem.signal

The import is all that is needed: objects are counted from then on, and `kill -URG PID` has a child
write what is alive, without garbage, to `/tmp/memprof-PID-TIME.json`. The process itself stands
still while it is forked, and hears nothing of the child. SOSCOPE_MEM_DUMPS in the environment names
another folder.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from soscope_mem import _tables
from soscope_mem._agent import CountingError
from soscope_mem._count import ours, start
from soscope_mem._dump import write_apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

__all__ = ["install"]

FOLDER = "/tmp"  # noqa: S108 # files there are made anew, and are this user's alone


class _State:
    """Where dumps go, who had the signal before, and the last second with a dump."""

    folder = FOLDER
    before: Any = None
    second = 0
    dumps = 0  # in this second


def install(folder: str | os.PathLike[str] | None = None) -> None:
    """Have each SIGURG write a dump into a folder, and then do what it did before.

    None: the one that SOSCOPE_MEM_DUMPS names, or /tmp. Importing the module calls this; called
    again, it changes the folder. Raises CountingError, also in other threads than the main one.
    """
    start()
    _State.folder = os.fspath(folder or os.environ.get("SOSCOPE_MEM_DUMPS") or FOLDER)
    if signal.getsignal(signal.SIGURG) is _dump:
        return
    try:
        _State.before = signal.signal(signal.SIGURG, _dump)
    except ValueError as error:
        raise CountingError(f"SIGURG cannot be heard: {error}") from error


def _dump(number: int, frame: FrameType | None) -> None:
    try:
        write_apart(_path(), _tables.DUMP_ALL | _tables.DUMP_REACHABLE)
    except (OSError, CountingError) as error:
        sys.stderr.write(f"soscope_mem: no dump was made: {error}\n")
    if callable(_State.before):
        _State.before(number, frame)


def _path() -> str:
    second = int(time.time())
    _State.dumps = _State.dumps + 1 if second == _State.second else 1
    _State.second = second
    which = f"-{_State.dumps}" if _State.dumps > 1 else ""
    return os.path.join(_State.folder, f"memprof-{os.getpid()}-{second}{which}.json")


ours(install)
install()
