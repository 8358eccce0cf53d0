# SPDX-License-Identifier: Apache-2.0
"""ujson_ops.py FOLDER PARTS OPERATIONS: dumps and loads of the ujson in a folder.

Prints nanoseconds of processor time an operation, by part.
"""

from __future__ import annotations

import sys
import time

sys.path.insert(0, sys.argv[1])

import ujson

VALUE = {
    "id": 17,
    "name": "user 17",
    "active": True,
    "tags": ["alpha", "beta", "gamma"],
    "scores": [number / 7 for number in range(8)],
    "parent": {"id": 3, "name": "user 3", "tags": []},
}
for _ in range(int(sys.argv[2])):
    start = time.thread_time_ns()
    for _ in range(int(sys.argv[3])):
        ujson.loads(ujson.dumps(VALUE))
    print((time.thread_time_ns() - start) / int(sys.argv[3]))
