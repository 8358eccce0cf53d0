# SPDX-License-Identifier: Apache-2.0
"""Memory for soscope's machine code, and the functions that the code has for Python.

The memory is never freed, because a thread may execute the code, or have its address in a
register.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PROT_EXEC, PROT_READ, PROT_WRITE

from soscope.errors import HookError
from soscope.hooking.isa import code

_FAILED = (1 << 64) - 1
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_EXCHANGE = ctypes.CFUNCTYPE(*[ctypes.c_uint64] * 4)


class Thunk:
    """The code that one slot leads to. It is at `addr`, and its data is at `data`."""

    __slots__ = ("addr", "data")

    def __init__(self, addr: int, data: int) -> None:
        self.addr = addr
        self.data = data

    @property
    def way(self) -> int:
        """The address of code that calls a tracer's trampoline only while its session lasts."""
        return self.addr + code.WAY

    def get(self, field: int) -> int:
        """Return a word of the data."""
        return _word(self.data + field).value

    def set(self, field: int, value: int) -> None:
        """Change a word of the data by a single store."""
        _word(self.data + field).value = value


class SharedCode:
    """The shared machine code of this process. `machine` makes it once."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._free: list[Thunk] = []
        base = self._map(code.TEXT_SIZE, code.CODE)
        self.base = base
        self.entry = base + code.NAMES["entry"]
        self.leave = base + code.NAMES["leave"]
        self.exchange = _EXCHANGE(base + code.NAMES["exchange"])
        self._write = _WRITE(base + code.NAMES["write"])
        self._iterate = self._libc.dl_iterate_phdr
        self._iterate.argtypes = (_WRITE, ctypes.c_void_p)
        check = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p).value
        _word(base + code.HOLDS_GIL).value = check or 0
        self.take_process()

    def _map(self, size: int, text: bytes) -> int:
        """Map memory that begins with a page of code. Raises HookError."""
        libc = self._libc
        libc.mmap.restype = ctypes.c_uint64
        libc.mmap.argtypes = (
            *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
            *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
        )
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        flags = MAP_PRIVATE | MAP_ANONYMOUS
        base: int = libc.mmap(None, size, PROT_READ | PROT_WRITE, flags, -1, 0)
        if base == _FAILED:
            raise _no_memory("map memory")
        ctypes.memmove(base, text, len(text))
        if libc.mprotect(base, code.PAGE, PROT_READ | PROT_EXEC):
            raise _no_memory("make memory executable")
        return base

    def take_process(self) -> None:
        """Set the pid of the process whose interpreter this is, also in a forked child."""
        _word(self.base + code.PID).value = os.getpid()

    def forget_threads(self) -> None:
        """Remove all threads but this one from the table. A forked child does not have them."""
        mine = threading.get_ident()  # pthread_self: the thread pointer
        table = self.base + code.TABLE
        words = (ctypes.c_uint64 * (code.ROWS * code.PLACES)).from_address(table)
        for at, word in enumerate(words):
            if word and word & ~1 != mine:
                words[at] = 0

    def is_busy(self) -> bool:
        """Return whether another thread is in a Python callable."""
        table = self.base + code.TABLE
        words = (ctypes.c_uint64 * (code.ROWS * code.PLACES)).from_address(table)
        mine = threading.get_ident()
        return any(word and word & ~1 != mine for word in words)

    def new_thunk(self) -> Thunk:
        """Return a thunk whose data is all zero. Raises HookError."""
        if not self._free:
            base = self._map(code.CHUNK_SIZE, code.thunks())
            self._free = [
                Thunk(base + index * code.THUNK_SIZE, base + code.PAGE + index * code.DATA_SIZE)
                for index in reversed(range(code.THUNKS))
            ]
        return self._free.pop()

    def write(self, bias: int, addr: int, old: int, new: int, *, prot: int) -> int | None:
        """Store `new` at `addr`, in the image with this load bias, if `old` is there now.

        It is a single store, under the loader's lock. `prot` is the protection that the page gets
        afterwards, 0 if the page is writable anyway. Returns the value before. Returns None if
        there is no such image, or if its page cannot be made writable.
        """
        page = addr & -code.PAGE
        request = struct.pack(
            code.REQUEST, bias & _FAILED, addr, old, new, 0, page, bool(prot), prot
        )
        buffer = ctypes.create_string_buffer(request, len(request))
        if self._iterate(self._write, ctypes.addressof(buffer)) <= 0:
            return None
        seen: int = struct.unpack(code.REQUEST, buffer.raw)[4]
        return seen


def _word(addr: int) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(addr)


def read_word(addr: int) -> int:
    """Return the word at an address, which must be mapped."""
    return _word(addr).value


def _no_memory(what: str) -> HookError:
    number = ctypes.get_errno()
    return HookError(f"cannot {what}: {os.strerror(number)}", errno=number)


_machine: SharedCode | None = None


def machine() -> SharedCode:
    """Return the machine code of this process. The first call makes it. Raises HookError."""
    global _machine  # noqa: PLW0603  one for the process
    if _machine is None:
        if struct.calcsize("P") != 8 or sys.platform != "linux" or os.uname().machine != code.UNAME:
            raise HookError("soscope hooks on Linux on x86-64 alone")
        try:
            _machine = SharedCode()
        except (AttributeError, OSError) as error:  # for example in a static interpreter
            raise HookError(f"this interpreter cannot hook: {error}") from error
    return _machine
