# SPDX-License-Identifier: Apache-2.0
"""Keeps some strings, and ends in the way that its argument names."""

import atexit
import ctypes
import gc
import os
import signal
import subprocess
import sys

kept = [str(number) + "k" for number in range(1234)]  # alive: 1234 str, 1 list
way = sys.argv[1]
print("here", flush=True)
if way == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif way == "term":
    os.kill(os.getpid(), signal.SIGTERM)
elif way == "abort":
    os.abort()
elif way == "_exit":
    os._exit(3)
elif way == "exec":
    os.execv("/bin/true", ["true"])
elif way == "no-exec":
    try:
        os.execv("/nowhere", ["nowhere"])
    except OSError:
        more = [float(number) for number in range(321)]  # alive: 321 float, 1 list
elif way == "exit":
    sys.exit(5)
elif way == "fault":
    ctypes.string_at(0)
elif way == "raise":
    raise ValueError
elif way == "atexit":
    last = []
    atexit.register(lambda: last.extend(map(float, range(77))))  # alive: 77 float, 1 function
elif way == "garbage":
    gc.disable()
    for _ in range(100):
        loop = []  # alive: 100 list
        loop.append(loop)
elif way == "vfork":
    subprocess.run(["/bin/true"], check=True)
elif way == "fork":
    if not os.fork():
        kept.clear()
        mine = [float(number) for number in range(555)]  # alive: 555 float, 1 list
        os._exit(0)
    os.wait()
elif way == "run":
    text = "kept = [str(number) + 'k' for number in range(77)]"
    subprocess.run([sys.executable, "-c", text], check=True)
