# SPDX-License-Identifier: Apache-2.0
"""A processor that others have: who runs there gets little of it, and late."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# The first words of a Python program that has to share the processor of `sys.argv[1]`.
SHARE = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.nice(10)\n"
_HOG = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@contextmanager
def processor() -> Iterator[str]:
    """Keep one processor busy; yield its number."""
    number = str(min(os.sched_getaffinity(0)))
    hog = subprocess.Popen([sys.executable, "-c", _HOG, number])
    try:
        yield number
    finally:
        hog.kill()
        hog.wait()
