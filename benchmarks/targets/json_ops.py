# SPDX-License-Identifier: Apache-2.0
"""A json workload of about 20 µs an operation; prints nanoseconds an operation, by part.

json_ops.py PARTS OPERATIONS
"""

from __future__ import annotations

import json
import sys
import time

# Two records and a series of measurements: some 900 calls through slots an operation.
VALUE = {
    "users": [
        {
            "id": n,
            "name": f"user {n}",
            "mail": f"user{n}@example.org",
            "score": n / 7,
            "active": True,
            "tags": ["alpha", "beta"],
            "text": "The quick brown fox jumps over the lazy dog. " * 3,
        }
        for n in range(2)
    ],
    "samples": [n / 7 for n in range(24)],
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
