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
from soscope_mem._dump import dump, dump_all
from soscope_mem._trace import trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope_mem._asgi import ASGI
    from soscope_mem._wsgi import WSGI

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
    """Import what only web applications need."""
    if name == "WSGI":
        from soscope_mem._wsgi import WSGI

        return WSGI
    if name == "ASGI":
        from soscope_mem._asgi import ASGI

        return ASGI
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
