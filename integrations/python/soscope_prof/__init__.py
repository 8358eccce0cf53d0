# SPDX-License-Identifier: Apache-2.0
"""Profile the shared libraries of this very program, from one line of it to another.

>>> import soscope_prof, zlib
>>> with soscope_prof.profile(images=["libz*"], boundary="count") as result:
...     for number in range(100):
...         checksum = zlib.adler32(b"abc" * 100)
>>> [row["calls"] for row in result.functions if row["symbol"] == "adler32"]
[100]
"""

from soscope_prof._profiler import profile, start, stop
from soscope_prof._result import ProfilingError, Result

__all__ = ["ProfilingError", "Result", "profile", "start", "stop"]
