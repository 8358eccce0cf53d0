# SPDX-License-Identifier: Apache-2.0
"""Print what a call of labs costs in this process, in ns: hook_ops.py WHAT many.so own.so PARTS."""

from __future__ import annotations

import contextlib
import ctypes
import statistics
import sys
import time

import soscope

what, caller, own, parts = sys.argv[1:]
many = ctypes.CDLL(caller).many
many.argtypes, many.restype = [ctypes.c_long], ctypes.c_long
ways = {
    "pointer": lambda: soscope.hook("labs", ctypes.CDLL(own).own_labs, from_="many.so"),
    "callable": lambda: soscope.hook("labs", lambda number, original: number or original(0)),
    "original": lambda: soscope.hook("labs", lambda number, original: original(number)),
    "none": contextlib.nullcontext,
}
count = 1_000_000 if what in ("none", "pointer") else 20_000
times = []
with ways[what]():
    many(count)
    for _ in range(int(parts)):
        begun = time.perf_counter_ns()
        many(count)
        times.append((time.perf_counter_ns() - begun) / count)
print(statistics.median(times))
