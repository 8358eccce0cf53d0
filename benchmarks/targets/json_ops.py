# SPDX-License-Identifier: Apache-2.0
"""A json workload of about 20 µs an operation; prints nanoseconds an operation, by part.

json_ops.py PARTS OPERATIONS
"""

from __future__ import annotations

import json
import sys
import time

VALUE = {
    "name": "soscope",
    "numbers": list(range(12)),
    "floats": [n / 7 for n in range(4)],
    "nested": {f"key{n}": {"a": n, "b": str(n), "c": None, "d": True} for n in range(4)},
}
TEXT = json.dumps(VALUE)


def main() -> None:
    """Run the parts; the first warms up."""
    parts, operations = int(sys.argv[1]), int(sys.argv[2])
    loads, dumps, clock = json.loads, json.dumps, time.perf_counter_ns
    taken = []
    for _ in range(parts + 1):
        start = clock()
        for _ in range(operations):
            dumps(loads(TEXT))
        taken.append((clock() - start) / operations)
    sys.stdout.write(" ".join(f"{one:.1f}" for one in taken[1:]) + "\n")


main()
