# SPDX-License-Identifier: Apache-2.0
"""The agent in this process: found where soscope has put it, else loaded as a library.

All that it does for us happens in a call that keeps the interpreter's lock: no other thread makes
or drops an object meanwhile.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import struct
import sys

from soscope_mem import _tables as tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Callable

_LIBRARY = "libsoscope-agent.so"
_PROGRAM = struct.Struct(tables.PROGRAM_FORMAT)
_INSIDE = struct.Struct(tables.INSIDE_FORMAT)
_Buffer = ctypes.c_char * _PROGRAM.size
_Function = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p)
_OWN = 4  # objects of a question itself, and the end of the list of those that are left out
_QUIET = (tables.END, tables.MADE_END, tables.CHILD)  # are carried out, whatever is counted
OTHER = "the agent in this process is of another version of soscope than soscope_mem is"
_ADDRESSES = 1 << 47  # of programs
_FEW = 64
_LeftOut = ctypes.c_uint64 * _FEW  # more are rare: a type for each number would be an object, too


class CountingError(RuntimeError):
    """Objects are not counted, or cannot be; the text says why."""


class Agent:
    """The agent of this process; `ask` has it carry out an order."""

    __slots__ = ("_function", "_images", "_layouts")

    def __init__(self) -> None:
        """Find it, or load it. Raises CountingError."""
        if sys.implementation.name != "cpython":
            raise CountingError(f"objects of {sys.implementation.name} cannot be counted")
        if hasattr(sys, "gettotalrefcount"):
            raise CountingError("objects cannot be counted: it is a debug build of CPython")
        if "free-threading build" in sys.version:  # a child that writes a dump would walk its heap
            raise CountingError("objects cannot be counted: it is a free-threaded build")
        self._function = _resident() or _loaded()
        # the loader's own handle: its list of images begins there
        self._images: int = ctypes.PyDLL(None)._handle
        self._layouts = (ctypes.c_char * len(tables.LAYOUTS)).from_buffer_copy(tables.LAYOUTS)

    def ask(self, order: int, left_out: Sequence[int] = (), dump: int = 0) -> dict[str, int]:
        """Return what the agent answers, and under `argument` the address of the question.

        The objects at `left_out` are in no answer. `dump` is the address of what the order for a
        child needs. Raises CountingError where objects cannot be counted.
        """
        count = len(left_out) + _OWN
        kind = _LeftOut if count <= _FEW else ctypes.c_uint64 * count
        addresses = kind(*left_out)
        buffer = self._question(order, ctypes.addressof(addresses), dump)
        # a tuple that is handed over as it is: the call makes no other one
        arguments = (ctypes.addressof(buffer),)
        for place, own in enumerate((addresses, buffer, arguments), len(left_out)):
            addresses[place] = id(own)
        if self._function(*arguments) != 0:
            raise CountingError("objects cannot be counted: " + OTHER)
        answer = dict(zip(tables.PROGRAM_FIELDS, _PROGRAM.unpack(buffer)))
        text = answer.pop("text")
        if answer["state"] == tables.REFUSED and order not in _QUIET:
            why = tables.REFUSALS.get(answer["refusal"], "the agent has not said why")
            name = text.split(b"\0")[0].decode("utf-8", "replace")
            raise CountingError("objects cannot be counted: " + why.format(text=name))
        return {**answer, "argument": arguments[0]}

    def _question(self, order: int, left_out: int, dump: int) -> ctypes.Array[ctypes.c_char]:
        said = {
            "size": _PROGRAM.size,
            "order": order,
            "tables": tables.FINGERPRINT,
            "images": self._images,
            "layouts": ctypes.addressof(self._layouts),
            "layout_count": len(tables.LAYOUTS) // tables.LAYOUT_SIZE,
            "left_out": left_out,
            "text": b"",
            "dump": dump,
        }
        words = [said.get(name, 0) for name in tables.PROGRAM_FIELDS]
        return _Buffer.from_buffer_copy(_PROGRAM.pack(*words))


def _resident() -> Callable[[int], int] | None:
    """Return the function of an agent that soscope has put into this process, None without one."""
    at = resident_at()
    return _Function(_inside(at)["program"]) if at else None


def _inside(agent: int) -> dict[str, int]:
    said = _INSIDE.unpack(_read(agent + tables.INSIDE_AT, _INSIDE.size))
    return dict(zip(tables.INSIDE_FIELDS, said))


def resident_at() -> int:
    """Return where an agent begins that soscope has put into this process, 0 without one.

    Raises CountingError where it is of another version: it is not asked anything then.
    """
    for line in _maps():
        span, flags, offset = line.split(None, 3)[:3]
        if flags[2:3] != b"x" or offset.strip(b"0"):
            continue
        start = int(span.split(b"-")[0], 16)
        if not _is_one(_read(start + tables.INSIDE_AT, _INSIDE.size)):
            continue
        inside = _inside(start)
        if (inside["size"], inside["tables"]) != (_INSIDE.size, tables.FINGERPRINT):
            raise CountingError("nothing can be counted: " + OTHER)
        return start
    return 0


def _maps() -> list[bytes]:
    with open("/proc/self/maps", "rb") as file:
        return file.read().splitlines()


def _is_one(data: bytes) -> bool:
    return data[:8] == tables.INSIDE_MAGIC.to_bytes(8, "little") and len(data) == _INSIDE.size


def _read(at: int, size: int) -> bytes:
    """Return memory that another thread may give back at any moment, b"" where there is none."""
    if at >= _ADDRESSES:
        return b""
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # as where the process may not be dumped
        return ctypes.string_at(at, size) if _is_readable(at, size) else b""
    try:
        return os.pread(memory, size, at)
    except OSError:
        return b""
    finally:
        os.close(memory)


def _is_readable(at: int, size: int) -> bool:
    for line in _maps():
        span, flags = line.split(None, 2)[:2]
        start, end = (int(addr, 16) for addr in span.split(b"-"))
        if start <= at and at + size <= end:
            return flags[:1] == b"r"
    return False


def _loaded() -> Callable[[int], int]:
    return _Function(("soscope_agent_program", library()))


def library() -> ctypes.PyDLL:
    """Load the agent as a library; it stays. Raises CountingError where there is none."""
    paths = [os.path.join(os.path.dirname(__file__), _LIBRARY)]
    # by the finder that soscope mem run adds
    told = getattr(sys.modules[__package__].__spec__, "loader_state", None)
    if isinstance(told, str):
        paths.append(told)
    spec = importlib.util.find_spec("soscope")
    if spec is not None and spec.origin is not None:
        paths.append(os.path.join(os.path.dirname(spec.origin), "_agent", _LIBRARY))
    for path in paths:
        if os.path.exists(path):
            try:
                return ctypes.PyDLL(path)
            except OSError as error:
                raise CountingError(f"cannot load the agent: {error}") from error
    raise CountingError("there is no agent: install soscope, or soscope-mem, for this machine")
