# SPDX-License-Identifier: Apache-2.0
"""Lets go of the pages of a growing recording that lie behind.

A recording of a gigabyte would push what the traced program reads out of the page cache. And
fresh pages are what most of writing costs: pages that were written before and come back cost
a fifth in a virtual machine, whose host has to find memory for fresh ones. So pages are handed to
the disk early, and let go a while later. A disk that keeps soscope waiting is left in peace: then
the page cache takes what the disk cannot. Small recordings stay in memory, as they will be read.
"""

from __future__ import annotations

import os
import time

_STAYS = 32 << 20  # bytes at the beginning of the file
_STEP = 8 << 20
_LAG = 32 << 20  # bytes that the disk has time for
_PATIENCE = 0.02  # seconds that a step may take


class Behind:
    """Follows the end of a file with descriptor `descriptor`."""

    __slots__ = ("_descriptor", "_handed")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._handed = _STAYS

    def written(self, size: int) -> bool:
        """Hear that the file has `size` bytes. Return whether more of this is worth while."""
        while size - self._handed >= _STEP:
            start = time.monotonic()
            try:
                # Linux begins to write dirty pages here, and drops clean ones: posix_fadvise(2)
                os.posix_fadvise(self._descriptor, self._handed, _STEP, os.POSIX_FADV_DONTNEED)
                before = self._handed - _LAG
                if before >= _STAYS:
                    os.posix_fadvise(self._descriptor, before, _STEP, os.POSIX_FADV_DONTNEED)
            except OSError:
                return False  # a file that knows no pages
            self._handed += _STEP
            if time.monotonic() - start > _PATIENCE:
                return False
        return True
