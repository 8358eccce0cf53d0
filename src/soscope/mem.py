# SPDX-License-Identifier: Apache-2.0
"""Record the objects of the program that imports this module; an alias of soscope_mem.

>>> import soscope.mem
>>> soscope.mem.start()
True
>>> soscope.mem.stop()
True
"""

import soscope_mem
from soscope_mem import CountingError, dump, dump_all, start, stats, stats_clear, stop, trace, track

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope_mem import ASGI, WSGI

__all__ = [
    "ASGI",
    "WSGI",
    "CountingError",
    "dump",
    "dump_all",
    "start",
    "stats",
    "stats_clear",
    "stop",
    "trace",
    "track",
]


def __getattr__(name: str) -> object:
    """Return a name that soscope_mem itself imports lazily."""
    if name in __all__:
        return getattr(soscope_mem, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
