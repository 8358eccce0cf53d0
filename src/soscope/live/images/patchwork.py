# SPDX-License-Identifier: Apache-2.0
"""The contents of mapped files, in place of memory that soscope may not read.

It replaces /proc/PID/mem if reading that is refused. A page mapped without write permission has
exactly the contents of the file. Other pages had these contents at the start.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right

from soscope.binfmt.source import ByteSource
from soscope.proc.maps import Mapping


class Patchwork(ByteSource):
    """The mapped files of a process, at the addresses at which they are mapped."""

    __slots__ = ("_files", "_mappings", "_starts", "_tid")

    def __init__(self, tid: int, mappings: list[Mapping]) -> None:
        super().__init__(f"mapped files of process {tid}")
        self._tid = tid
        self._mappings = [mapping for mapping in mappings if mapping.inode]
        self._starts = [mapping.start for mapping in self._mappings]
        self._files: dict[int, int | None] = {}

    def __del__(self) -> None:
        for descriptor in self._files.values():
            if descriptor is not None:
                os.close(descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at run-time address `offset`; fewer at a mapping's end."""
        data = bytearray()
        while len(data) < size:
            addr = offset + len(data)
            at = bisect_right(self._starts, addr) - 1
            if at < 0 or addr >= self._mappings[at].end:
                break
            mapping = self._mappings[at]
            descriptor = self._open(mapping)
            if descriptor is None:
                break
            wanted = min(size - len(data), mapping.end - addr)
            piece = os.pread(descriptor, wanted, mapping.offset + addr - mapping.start)
            data += piece
            if len(piece) < wanted:
                break
        return bytes(data)

    def _open(self, mapping: Mapping) -> int | None:
        """Open the file of a mapping, if it is still the same file; once for each inode."""
        if mapping.inode not in self._files:
            self._files[mapping.inode] = open_same(
                (f"/proc/{self._tid}/root{mapping.path}", mapping.path), mapping.inode
            )
        return self._files[mapping.inode]


def open_same(paths: tuple[str, ...], inode: int) -> int | None:
    """Open the first of `paths` that is a regular file with this inode, None if none is.

    It never waits for a pipe and never opens a device.
    """
    for path in paths:
        try:
            if not _is_same(os.stat(path), inode):
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            continue  # missing or not allowed: try the next path
        if _is_same(os.fstat(descriptor), inode):
            return descriptor
        os.close(descriptor)
    return None


def _is_same(status: os.stat_result, inode: int) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_ino == inode
