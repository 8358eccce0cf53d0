# SPDX-License-Identifier: Apache-2.0
"""Which objects a program has made and still has, by file, line and type.

>>> import soscope_mem
>>> soscope_mem.start()
True
>>> kept = [bytes(1000 + number) for number in range(20)]
>>> with open("/dev/null", "w") as file:
...     soscope_mem.stats(file)
>>> soscope_mem.stop()
True
"""

from soscope_mem._agent import CountingError
from soscope_mem._count import start, stats, stats_clear, stop, track

__all__ = ["CountingError", "start", "stats", "stats_clear", "stop", "track"]
