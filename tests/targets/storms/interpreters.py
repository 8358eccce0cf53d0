# SPDX-License-Identifier: Apache-2.0
"""A storm in Python: four interpreters in four threads, which make and drop all they can.

    python interpreters.py SECONDS

From 3.12 on each has a lock of its own, so they run at once. It prints "ready". SECONDS later, and
not before each has done its least, it prints their turns as one line of JSON, and ends with 7.
"""

import json
import os
import sys
import threading

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

LEAST = 300
NUMBER = 4
BODY = """
import gc, os, time
end, turns, kept = time.monotonic() + {seconds}, 0, []
while time.monotonic() < end or turns < {least}:
    for number in range(100):
        made = [object(), (number, number), {{"a": number}}, str(number) * 3, bytearray(700)]
    kind = type("Kind", (), {{"own": lambda self: [self]}})
    assert all(kind().own() for _ in range(50))
    names = {{}}
    exec(compile(f"def made(x):\\n    return [[x, {{turns}}]]", f"made{{turns % 7}}", "exec"), names)
    assert names["made"](3) == [[3, turns]]
    try:
        raise ValueError("x" * 300)
    except ValueError as error:
        assert len(str(error)) == 300
    kept.append(made)
    if len(kept) > 1000:
        kept.clear()
    if turns % 100 == 0:
        gc.collect()
    turns += 1
os.write({fd}, b"%d\\n" % turns)
"""


def weather(fd, seconds):
    """Run the storm in an interpreter of its own, and end with it."""
    made = interpreters.create()
    error = interpreters.run_string(made, BODY.format(seconds=seconds, least=LEAST, fd=fd))
    if error:
        print("storm: wrong:", error, file=sys.stderr, flush=True)
    interpreters.destroy(made)


reader, writer = os.pipe()
threads = [
    threading.Thread(target=weather, args=(writer, float(sys.argv[1]))) for _ in range(NUMBER)
]
print("ready", flush=True)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os.close(writer)
with open(reader) as counts:
    turns = [int(line) for line in counts]
print(json.dumps({f"interpreter {number}": count for number, count in enumerate(turns)}))
sys.exit(7 if len(turns) == NUMBER else 1)
