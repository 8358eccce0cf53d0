# SPDX-License-Identifier: Apache-2.0
"""Waking threads that wait for a word of a control page."""

from __future__ import annotations

import ctypes
import sys

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap

_WAKE = 1
_libraries: list[ctypes.CDLL] = []  # libc, kept: to find it takes a while


def wake(mapping: mmap.mmap, field: str, most: int) -> None:
    """Wake `most` of the threads that wait for a futex word of a mapped control page."""
    from soscope.model.arch import arch_here

    here = arch_here()
    number = None if here is None else here.calls.get("futex")
    if number is None or sys.maxsize < 1 << 32:
        return  # waiting threads look again every 100 ms anyway
    if not _libraries:
        _libraries.append(ctypes.CDLL(None))
    word = ctypes.c_uint32.from_buffer(mapping, layout.CONTROL.offset(field))
    _libraries[0].syscall(number, ctypes.byref(word), _WAKE, most)
    del word  # a reference would keep the mapping from being closed
