# SPDX-License-Identifier: Apache-2.0
"""Read the memory of a process without adding to its resident memory.

A read through /proc/PID/mem touches pages as the process itself would: the kernel maps them, and
RSS grows. A page that is not in memory yet has the contents of its file, or zeros, so its bytes
are taken from there. Only pages that are swapped out come back into memory, as their bytes are
nowhere else.
"""

from __future__ import annotations

import os

from soscope.binfmt.source import ByteSource
from soscope.live.images.patchwork import Patchwork
from soscope.proc.maps import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PAGE = 4096
# The upper two bits of an entry's last byte: is the page present, is it swapped out
# (Documentation/admin-guide/mm/pagemap.rst).
_ENTRY, _TOP, _KEPT = 8, 7, 0b01 << 6


class GentleMemory(ByteSource):
    """Reads as `memory`, that of thread `tid`, does; `mapping_at` returns an address's mapping.

    Raises OSError if the kernel does not tell which pages are in memory.
    """

    __slots__ = ("_descriptor", "_mapping_at", "_mappings", "_memory", "_patchwork", "_tid")

    def __init__(
        self,
        tid: int,
        memory: ByteSource,
        mapping_at: Callable[[int], Mapping | None],
        mappings: Callable[[], list[Mapping]],
    ) -> None:
        super().__init__(memory.name)
        self._descriptor = os.open(f"/proc/{tid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        self._tid = tid
        self._memory = memory
        self._mapping_at = mapping_at
        self._mappings = mappings
        self._patchwork: Patchwork | None = None

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at run-time address `offset`; fewer if a page is missing."""
        if not 0 <= offset < 1 << 47 or size <= 0:
            return self._memory.read(offset, size)
        first, last = offset // _PAGE, (offset + size - 1) // _PAGE
        entries = os.pread(self._descriptor, (last - first + 1) * 8, first * 8)
        if not entries:  # the process has ended: `memory` reports it
            return self._memory.read(offset, size)
        tops = entries[_TOP::_ENTRY]
        if min(tops) >= _KEPT:
            return self._memory.read(offset, size)
        states = [top >= _KEPT for top in tops]
        data = bytearray()
        end = offset + size
        while (at := offset + len(data)) < end:
            page = at // _PAGE - first
            run = page
            while run < len(states) and states[run] == states[page]:
                run += 1
            stop = min((first + run) * _PAGE, end)
            piece = self._memory.read(at, stop - at) if states[page] else self._absent(at, stop)
            data += piece
            if not piece:
                break
        return bytes(data)

    def _absent(self, start: int, end: int) -> bytes:
        """Return the contents of pages that are not in memory, up to the end of their mapping."""
        mapping = self._mapping_at(start)
        if mapping is None:
            return self._memory.read(start, end - start)
        size = min(end, mapping.end) - start
        if mapping.inode:
            if self._patchwork is None:
                self._patchwork = Patchwork(self._tid, self._mappings())
            # if the file is deleted, only the memory has the bytes
            return self._patchwork.read(start, size) or self._memory.read(start, size)
        if mapping.path in ("", "[heap]", "[stack]") or mapping.path.startswith("[anon:"):
            return bytes(size)
        return self._memory.read(start, size)
