# SPDX-License-Identifier: Apache-2.0
"""Traces its own memory now and then, and prints what it is told."""

import sys
import tracemalloc

print(tracemalloc.is_tracing())
before = [str(number) + "a" for number in range(1000)]  # alive: 1000 str, 1 list
if not tracemalloc.is_tracing():
    tracemalloc.start(5)
print(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit())
during = [str(number) + "b" for number in range(2000)]  # alive: 2000 str, 1 list
rows = tracemalloc.take_snapshot().statistics("lineno")
line = [row.count for row in rows if (row.traceback[0].filename, row.traceback[0].lineno) == (__file__, 12)]
print(line[0] >= 2000, tracemalloc.get_traced_memory()[0] > 100_000)
tracemalloc.stop()
print(tracemalloc.is_tracing(), tracemalloc.get_traced_memory())
behind = [str(number) + "c" for number in range(3000)]  # alive: 3000 str, 1 list
try:
    tracemalloc.start(-1)
except ValueError as error:
    print(error)
print(tracemalloc.is_tracing())
tracemalloc.start()
again = [str(number) + "d" for number in range(400)]  # alive: 400 str, 1 list
print(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit())
sys.stdout.flush()
