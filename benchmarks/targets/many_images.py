# SPDX-License-Identifier: Apache-2.0
"""A Python that loads as many shared objects as it finds; with `count` says how many.

With `stay NUMBER` it loads libraries of the system, too, until there are so many, says
`ready NUMBER` and does nothing.
"""

from __future__ import annotations

import ctypes
import glob
import importlib
import os
import sys
import sysconfig
import time

WANTED = ["numpy", "numpy.fft", "numpy.random", "ssl", "sqlite3", "ctypes", "_cffi_backend", "yaml"]
WANTED += ["greenlet", "dbus", "apt_pkg", "gi", "cryptography.hazmat.bindings._rust"]
FAULTY = {"_tkinter"}  # needs a display's libraries
SYSTEM = "/usr/lib/x86_64-linux-gnu/lib[a-z]*.so.?"
# They replace the allocator, take over the program, or are a compiler.
UNFIT = ("san.so", "alloc", "memusage", "SegFault", "pcprofile", "fake", "eatmydata", "LLVM")


def images() -> int:
    """Return how many shared objects are mapped."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return len({line.split(None, 5)[5] for line in maps if ".so" in line})


def stay(number: int) -> None:
    """Load more until there are `number`; then wait to be killed."""
    for path in sorted(glob.glob(SYSTEM)):
        if images() >= number:
            break
        if any(word in path for word in UNFIT):
            continue
        try:
            ctypes.CDLL(path)
        except OSError:
            pass  # not every library can be loaded by itself
    sys.stdout.write(f"ready {images()}\n")
    sys.stdout.flush()
    time.sleep(3600)


def main() -> None:
    """Import everything; what is not there or does not want to is left out."""
    folder = sysconfig.get_path("platstdlib") + "/lib-dynload"
    names = sorted(name.split(".")[0] for name in os.listdir(folder))
    for name in [*names, *WANTED]:
        if name in FAULTY:
            continue
        try:
            importlib.import_module(name)
        except (ImportError, AttributeError, OSError):
            pass  # not every module can be imported by itself
    if sys.argv[1:] == ["count"]:
        sys.stdout.write(f"{images()}\n")
    elif sys.argv[1:2] == ["stay"]:
        stay(int(sys.argv[2]))


main()
