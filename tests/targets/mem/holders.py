# SPDX-License-Identifier: Apache-2.0
"""Has objects whose holders are known, and asks the collector whether they hold them.

A line that ends with a word behind `# held:` makes objects; `told` says by whom each is held.
"""

import collections
import ctypes
import functools
import gc
import json
import sys
import threading
import types
import weakref

print("ready", flush=True)
sys.stdin.readline()
gc.disable()


class Server:
    registry = []

    def __init__(self):
        self.sessions = {}


class Slotted:
    __slots__ = ("held",)


def outer():
    kept = []
    return kept, lambda: kept


def produce():
    mine = [[number] for number in range(20)]  # held: generator
    yield mine
    yield mine


@functools.lru_cache(None)
def cached(number):
    return [number]  # held: lru


def cycle():
    first = []  # held: cycle
    first.append([first])


def leaked(number):
    made = [number]  # held: native
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))


cache = {"users": []}
cache["users"] += [[number] for number in range(20)]  # held: items
server = Server()
server.sessions.update((number, [number]) for number in range(20))  # held: attribute
Server.registry += [{number} for number in range(20)]  # held: class
slotted = Slotted()
slotted.held = [bytearray(number + 1) for number in range(20)]  # held: slot
listed, callback = outer()
listed += [[number] for number in range(20)]  # held: closure
del listed
generator = produce()
next(generator)
for number in range(20):
    cached(number)
    cycle()
    leaked(number)
other = sys.modules["other"] = types.ModuleType("other")
other.queue = collections.deque([number] for number in range(20))  # held: module
local = threading.local()
local.rows = [[number] for number in range(20)]  # held: local
by_key = {(f"k{number}", number): None for number in range(20)}  # held: key
names = {f"name {number}": None for number in range(20)}  # held: text


class Weak:
    pass


weak = weakref.WeakSet()
strong = [Weak() for _ in range(20)]  # held: weak
for one in strong:
    weak.add(one)
del one


def holds(holder, held):
    """Say what the collector says of it."""
    return any(one is holder for one in gc.get_referrers(held))


def is_so():
    """Ask the collector for the last holder of each; what it cannot see is not asked."""
    frame = sys._getframe(1)
    pairs = [
        (cache["users"], cache["users"][3]),
        (server.sessions, server.sessions[3]),
        (Server.registry, Server.registry[3]),
        (slotted.held, slotted.held[3]),
        (callback(), callback()[3]),
        (other.queue, other.queue[3]),
        (local.rows, local.rows[3]),
        (by_key, next(iter(by_key))),
        (strong, strong[3]),
    ]
    rows = frame.f_locals["rows"]
    return [holds(*pair) for pair in [*pairs, (rows, rows[3])]]


def waiting():
    rows = [[number] for number in range(20)]  # held: frame
    print(json.dumps(is_so()), flush=True)
    for _ in [{number: None} for number in range(20)]:  # held: temporary
        sys.stdin.readline()
        break
    print("the end", flush=True)


waiting()
