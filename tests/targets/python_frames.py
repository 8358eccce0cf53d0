# SPDX-License-Identifier: Apache-2.0
"""Stand still in a stack of functions of every kind, and say what the stack is, in one line.

The address of the thread's state comes from the C API, the frames from the interpreter itself:
file, name, qualified name (None before 3.11) and line, the innermost first.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any


def stand() -> None:
    state = ctypes.pythonapi.PyThreadState_Get
    state.restype = ctypes.c_void_p
    rows: list[list[Any]] = []
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", None)
        rows.append([code.co_filename, code.co_name, name, frame.f_lineno])
        frame = frame.f_back
    rows[0][3] = sys._getframe().f_lineno + 2  # where it stands, printing or reading
    said = {"tstate": state(), "frames": rows}
    _ = print(json.dumps(said), flush=True), sys.stdin.read()


class Steps:
    def __init__(self) -> None:
        list(self.generator())

    def generator(self) -> Iterator[int]:
        yield from map(self.key, (2, 1))

    def key(self, number: int) -> int:
        if number == 1:
            run: Callable[[], None] = lambda: exec("stand()")  # noqa: E731  a frame of a lambda
            run()
        return number


async def task() -> None:
    await asyncio.sleep(0)
    Steps()


asyncio.run(task())
