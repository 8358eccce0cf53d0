# SPDX-License-Identifier: Apache-2.0
"""Compare memory ranges of a process with their former contents in one system call.

It is for repeated comparisons, because importing ctypes takes time.
"""

from __future__ import annotations

import ctypes
import os

MOST = 1024  # IOV_MAX

_libc = ctypes.CDLL(None, use_errno=True)
_read = _libc.process_vm_readv
_read.restype = ctypes.c_ssize_t
_read.argtypes = (
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_ulong,
)


class HeldPlaces:
    """Up to `MOST` memory ranges, and their former contents."""

    __slots__ = ("_buffer", "_count", "_data", "_local", "_remote", "_size")

    def __init__(self, places: list[tuple[int, bytes]]) -> None:
        self._data = b"".join(data for _, data in places)
        self._size = len(self._data)
        self._buffer = ctypes.create_string_buffer(self._size)
        words = ctypes.c_size_t * (2 * len(places))
        flat = [word for addr, data in places for word in (addr, len(data))]
        self._remote = words(*flat)
        self._local = (ctypes.c_size_t * 2)(ctypes.addressof(self._buffer), self._size)
        self._count = len(places)

    def hold(self, tid: int) -> bool:
        """Return whether the ranges still have the same contents. Raises OSError."""
        got = _read(tid, self._local, 1, self._remote, self._count, 0)
        if got != self._size:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return self._buffer.raw == self._data
