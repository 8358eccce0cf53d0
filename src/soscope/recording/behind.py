# SPDX-License-Identifier: Apache-2.0
"""Removes written pages of a growing recording from the page cache.

A recording of a gigabyte would push the files that the traced program reads out of the page
cache. Also, fresh pages are the largest part of the cost of writing. Pages that were written
before and come back cost a fifth in a virtual machine, whose host has to find memory for fresh
ones. So pages are written to the disk early, and dropped a while later. If the disk makes soscope
wait, this stops, and the page cache takes what the disk cannot. Small recordings stay in memory,
as they will be read.
"""

from __future__ import annotations

import os
import time

_STAYS = 32 << 20  # bytes at the beginning of the file that stay cached
_STEP = 8 << 20
_LAG = 32 << 20  # bytes between writing pages to the disk and dropping them
_PATIENCE = 0.02  # seconds that a step may take


class Behind:
    """Follows the end of the file with descriptor `descriptor`."""

    __slots__ = ("_descriptor", "_handed")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._handed = _STAYS

    def written(self, size: int) -> bool:
        """Process that the file has `size` bytes. Return whether to continue with this."""
        while size - self._handed >= _STEP:
            start = time.monotonic()
            try:
                # Here Linux starts to write dirty pages, and drops clean ones: posix_fadvise(2).
                os.posix_fadvise(self._descriptor, self._handed, _STEP, os.POSIX_FADV_DONTNEED)
                before = self._handed - _LAG
                if before >= _STAYS:
                    os.posix_fadvise(self._descriptor, before, _STEP, os.POSIX_FADV_DONTNEED)
            except OSError:
                return False  # a file without page cache
            self._handed += _STEP
            if time.monotonic() - start > _PATIENCE:
                return False
        return True
