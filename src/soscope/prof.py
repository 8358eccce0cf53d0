# SPDX-License-Identifier: Apache-2.0
"""Profile the libraries of the program that imports this module; alias of soscope_prof.

>>> import soscope.prof, zlib
>>> with soscope.prof.profile(images=["libz*"]) as result:
...     checksum = zlib.crc32(b"abc" * 100)
>>> result.arcs[0]["callee_image"]
'libz.so.1'
"""

from soscope_prof import ProfilingError, Result, profile, start, stop

__all__ = ["ProfilingError", "Result", "profile", "start", "stop"]
