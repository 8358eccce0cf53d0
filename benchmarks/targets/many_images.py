# SPDX-License-Identifier: Apache-2.0
"""A Python that loads as many shared objects as it finds; with `count` says how many."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig

WANTED = ["numpy", "numpy.fft", "numpy.random", "ssl", "sqlite3", "ctypes", "_cffi_backend", "yaml"]
WANTED += ["greenlet", "dbus", "apt_pkg", "gi", "cryptography.hazmat.bindings._rust"]
FAULTY = {"_tkinter"}  # needs a display's libraries


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
            pass
    if sys.argv[1:] == ["count"]:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.split(None, 5)[5] for line in maps if ".so" in line}
        sys.stdout.write(f"{len(paths)}\n")


main()
