# SPDX-License-Identifier: Apache-2.0
"""The objects of this very program: soscope_mem, by another name.

>>> import soscope.mem
>>> soscope.mem.start()
True
>>> soscope.mem.stop()
True
"""

from soscope_mem import CountingError, start, stats, stats_clear, stop, track

__all__ = ["CountingError", "start", "stats", "stats_clear", "stop", "track"]
