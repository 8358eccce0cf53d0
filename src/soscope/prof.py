# SPDX-License-Identifier: Apache-2.0
"""Profile the shared libraries of the program that imports this; another name for soscope_prof.

>>> import soscope.prof, zlib
>>> with soscope.prof.profile(images=["libz*"]) as result:
...     checksum = zlib.crc32(b"abc" * 100)
>>> result.arcs[0]["callee_image"]
'libz.so.1'
"""

from soscope_prof import ProfilingError, Result, profile, start, stop

__all__ = ["ProfilingError", "Result", "profile", "start", "stop"]
