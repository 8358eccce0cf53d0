# SPDX-License-Identifier: Apache-2.0
"""A forked child that has a list of the program's objects, and writes something of them.

The program hears of no child: it gets no signal and has nobody to wait for. The child hears of
nobody else: signals are blocked, and none of the program's files and sockets is open in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import struct
import sys

from soscope_mem import _tables
from soscope_mem._agent import Agent, CountingError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Work = Callable[["Child"], object]

_WAIT_ALL = 0x40000000  # __WALL: also for processes that send no signal when they end
_DUMP = struct.Struct(_tables.DUMP_FORMAT)
_OBJECT = struct.Struct(_tables.OBJECT_FORMAT)
_WORDS = _OBJECT.size // 8  # of one object: the first is its address
_AT_ONCE = 4096  # objects
_TOOLS = 6  # of sys.monitoring
_Argument = type(ctypes.byref(ctypes.c_int()))
_Buffer = ctypes.c_char * _DUMP.size
_FLAGS_AT = 8 * _tables.DUMP_FIELDS.index("flags")  # behind words alone


def _address(function: object) -> int:
    # the type of ctypes' functions is private
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _functions() -> bytes:
    """Return the struct of what the agent is to call; all else in it is 0."""
    python = ctypes.pythonapi
    said = {
        "fork": _address(ctypes.CDLL(None).fork),
        "before": _address(python["PyOS_BeforeFork"]),
        "after_parent": _address(python["PyOS_AfterFork_Parent"]),
        "after_child": _address(python["PyOS_AfterFork_Child"]),
        "keep": _address(python["Py_IncRef"]),
        "call": _address(python["PyObject_CallFunctionObjArgs"]),
        "disable": id(gc.disable),
        "get_objects": id(gc.get_objects),
    }
    return _DUMP.pack(*(said.get(name, 0) for name in _tables.DUMP_FIELDS))


class Child:
    """What the child knows: where objects lie, in its copy of the program's memory.

    `origins` and `origin_count` are those of the agent, `lost` are objects for which there was no
    room.
    """

    __slots__ = ("_at", "_call", "_count", "lost", "origin_count", "origins")

    def __init__(self, said: dict[str, int], answer: dict[str, int]) -> None:
        self._at = said["objects"]
        self._count = said["object_count"]
        self.lost = said["lost"]
        self.origins = answer["origins"]
        self.origin_count = answer["origin_count"]
        self._call = f"({answer['argument']:#x})>"  # how ctypes shows what the list was asked by

    def objects(self) -> Iterator[tuple[object, int, bool]]:
        """Yield each object, its origin's number, and whether it can be asked for others."""
        pairs = (ctypes.py_object * (_WORDS * self._count)).from_address(self._at)
        for start in range(0, self._count, _AT_ONCE):
            count = min(_AT_ONCE, self._count - start)
            data = ctypes.string_at(self._at + start * _OBJECT.size, count * _OBJECT.size)
            for place, (_, origin, whole) in enumerate(_OBJECT.iter_unpack(data), start):
                value = pairs[_WORDS * place]
                if type(value) is _Argument and repr(value).endswith(self._call):
                    continue
                yield value, origin, bool(whole)


def fork(agent: Agent, flags: int, work: Work, keep: tuple[int, ...], ours: list[int]) -> None:
    """Have a child do some work with a list of all objects, and go on.

    `keep` are descriptors that stay open in it, `ours` addresses of objects that are not in the
    list. The child ends when the work returns or raises. Raises CountingError, OSError.
    """
    dump = _Buffer.from_buffer_copy(_FUNCTIONS)
    struct.pack_into("<Q", dump, _FLAGS_AT, flags)
    ours += [id(dump), id(work), id(keep), id(ours)]
    program = os.getpid()
    try:
        answer = agent.ask(_tables.CHILD, ours, ctypes.addressof(dump))
        said = dict(zip(_tables.DUMP_FIELDS, _DUMP.unpack(dump)))
        if said["between"] == 0:
            _do(work, Child(said, answer), keep)
    finally:
        if os.getpid() != program:  # whatever a tracer has raised: there is one program
            os._exit(0)
    if said["between"] < 0:
        raise OSError(-said["between"], os.strerror(-said["between"]))
    try:
        os.waitpid(said["between"], _WAIT_ALL)
    except ChildProcessError:
        pass  # the program lets the kernel reap all of its children
    if said["child"] < 0:
        raise CountingError("objects cannot be written: no process can be forked for that")


def _do(work: Work, child: Child, keep: tuple[int, ...]) -> None:
    _silence()
    _leave_files(keep)
    work(child)


def _silence() -> None:
    """See to it that no code of the program's is called for what ours does."""
    sys.setprofile(None)
    sys.settrace(None)
    monitoring: Any = getattr(sys, "monitoring", None)
    for tool in range(_TOOLS if monitoring else 0):
        if monitoring.get_tool(tool) is not None:
            monitoring.set_events(tool, 0)


def _leave_files(keep: tuple[int, ...]) -> None:
    """Put /dev/null in the place of all files but some."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number not in keep and number != nothing:
            with contextlib.suppress(OSError):  # closed meanwhile: the listing's own
                os.dup2(nothing, number, inheritable=False)


_FUNCTIONS = _functions()
