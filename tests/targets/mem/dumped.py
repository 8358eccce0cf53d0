# SPDX-License-Identifier: Apache-2.0
"""Writes its objects out, in a way of several, and says what there are."""

import array
import atexit
import collections
import decimal
import functools
import gc
import io
import json
import os
import signal
import socket
import sys
import threading
import time
import types
import weakref

import soscope_mem

WAY, OUT = sys.argv[1:3]
MANY = 50  # what is made of constants alone is one, too
kept = []


class Slots:
    __slots__ = ("first", "second", "__weakref__")


class Plain:
    pass


class Own(Plain):
    """One that says wrong things of itself."""

    def __sizeof__(self):
        raise SystemExit("asked for its size")

    def __repr__(self):
        raise SystemExit("asked for its text")

    @property
    def number(self):
        raise SystemExit("asked for a property")

    def __getattr__(self, name):
        raise SystemExit("asked for an attribute")


class Text(str):
    def __len__(self):
        raise SystemExit("asked for its length")


class Ring:
    def __init__(self, data):
        self.own = self
        self.data = data

    def __del__(self):
        sys.stdout.write("finalized\n")


def truth(path):
    """Write of each object that can be reached: address, type, size, what it refers to."""
    gc.disable()
    found = gc.get_objects()
    seen, waiting = {}, list(found)
    ours = {id(found), id(seen), id(waiting)}
    while waiting:
        each = waiting.pop()
        if id(each) in seen or id(each) in ours:
            continue
        referred = gc.get_referents(each)
        seen[id(each)] = type(each).__name__, [hex(id(other)) for other in referred]
        waiting += referred
        waiting.append(type(each))
    with open(path, "w") as file:
        for at, (kind, referred) in seen.items():
            file.write(json.dumps([hex(at), kind, referred]) + "\n")


def everything():
    """All objects, and no other ones."""
    odd = Own()
    odd.__dict__["held"] = 5
    first = Slots()
    first.first = "text" * 9
    kept.extend(
        [first, Plain(), odd, Text("a text"), collections.deque([1, 2, object()])]
        + [decimal.Decimal(3), functools.partial(print, 1), array.array("i", [1]), 10**90]
        + [weakref.ref(Plain), (1, ("x" * 30,)), {1: {2: {3}}}, iter([1]), (i for i in range(3))]
        + [lambda: kept, types.SimpleNamespace(a=1), memoryview(b"abc"), 2.5, bytearray(b"12")]
    )
    soscope_mem.dump_all(OUT + ".first")
    truth(OUT + ".truth")
    truth(OUT + ".truth")
    soscope_mem.dump_all(OUT)


def block():
    """What a block leaves, written in each way."""
    with soscope_mem.dump(OUT):
        kept.extend(Plain() for _ in range(3))  # in a block
        kept[0].held = kept[1].other = "text" * MANY
        kept.append(Text("own" * MANY))
        kept.append([float("inf"), 1e300, True, None, b"\xff" * MANY, 10**MANY])
    try:
        soscope_mem.dump()
    except soscope_mem.CountingError as error:
        print(error)
    try:
        with soscope_mem.dump(OUT + ".none"):
            raise KeyError("mine")
    except KeyError as error:
        print(error, os.path.exists(OUT + ".none"), soscope_mem.stop())
    soscope_mem.start()
    kept.extend(Plain() for _ in range(4))  # before
    text = io.StringIO()
    with soscope_mem.dump(text):
        kept.extend(Plain() for _ in range(5))  # in a block within
    print(text.getvalue().count('"type":"Plain"'))
    soscope_mem.dump()
    try:
        soscope_mem.dump(OUT + "/none/x")
    except OSError as error:
        print(type(error).__name__, error.filename == OUT + "/none/x")


def garbage():
    gc.disable()
    soscope_mem.start()
    mine = [Ring(bytes(300))]  # mine
    for _ in range(5):
        Ring(bytes(400))  # garbage
    soscope_mem.dump(OUT)
    soscope_mem.dump(OUT + ".reachable", gc=True)
    for ring in gc.get_objects():
        if type(ring) is Ring:
            ring.own = None
    del ring, mine


def hear():
    """Be asked for dumps by a signal, with threads and locks at work."""
    heard = []
    signal.signal(signal.SIGURG, lambda number, _: heard.append(number))
    signal.signal(signal.SIGCHLD, lambda number, _: heard.append(number))
    os.environ["SOSCOPE_MEM_DUMPS"] = os.path.dirname(OUT)
    import soscope_mem.signal  # noqa: F401  it listens from here on

    atexit.register(print, "at exit")
    mine = [Ring(bytes(300)) for _ in range(3)]  # heard
    ours, theirs = socket.socketpair()
    file = open(OUT, "w")  # noqa: SIM115  it stays open while dumps are made
    file.write("once\n")
    ended, lock = threading.Event(), threading.Lock()

    def work():
        while not ended.is_set():
            with lock:
                [str(number) for number in range(300)]

    running = [threading.Thread(target=work) for _ in range(int(sys.argv[3]))]
    for thread in running:
        thread.start()
    for turn in range(2):
        os.kill(os.getpid(), signal.SIGURG)
        while len(heard) <= turn:
            time.sleep(0.01)
    ended.set()
    for thread in running:
        thread.join()
    try:
        print(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        print("no child", set(heard) == {signal.SIGURG})
    ours.close()
    print(theirs.recv(10))
    for ring in mine:
        ring.own = None
    print("here", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    globals()[WAY]()
