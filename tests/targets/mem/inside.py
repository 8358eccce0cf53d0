# SPDX-License-Identifier: Apache-2.0
"""Counts its own objects, in a way of several; the marks are those of `alive.py`."""

import gc
import io
import itertools
import os
import sys
import threading
import tracemalloc

import soscope_mem

WAY, OUT = sys.argv[1:3]
kept = []


def other():
    """Run another program, and write what it has left."""
    path = sys.argv[3]
    scope = {"__name__": "__main__", "__file__": path}
    with open(path) as file:
        code = compile(file.read(), path, "exec")
    soscope_mem.start()
    exec(code, scope)
    soscope_mem.stats(OUT)


def nothing():
    text = io.StringIO()
    turns = itertools.repeat(None, 20)
    soscope_mem.start()
    for _ in turns:
        soscope_mem.stats()
        soscope_mem.stats(gc=True)
        soscope_mem.stats(OUT)
        soscope_mem.stats(text)
        soscope_mem.stats_clear()
    soscope_mem.stop()
    sys.stderr.write(text.getvalue())


def phases():
    said = []
    before = [bytes(number) for number in range(300, 400)]
    said += [soscope_mem.start(), soscope_mem.start()]
    kept.extend(bytes(number) for number in range(300, 310))  # ten objects
    del before
    soscope_mem.stats_clear()
    kept.extend(bytes(number) for number in range(300, 307))  # seven
    soscope_mem.stats()
    said += [soscope_mem.stop(), soscope_mem.stop()]
    kept.extend(bytes(number) for number in range(300, 304))  # unseen
    said += [soscope_mem.start()]
    kept.extend(bytes(number) for number in range(300, 303))  # three
    soscope_mem.stats()
    said += [soscope_mem.stop()]
    print(*said)
    for call in (soscope_mem.stats, soscope_mem.stats_clear):
        try:
            call()
        except soscope_mem.CountingError as error:
            print(error)


@soscope_mem.track()
def tracked(count):
    """Doc."""
    kept.extend(bytes(number) for number in range(300, 300 + count))  # tracked
    return count


def tracks():
    print(tracked(5), tracked.__name__, tracked.__doc__)
    with soscope_mem.track(OUT):
        kept.extend(bytes(number) for number in range(300, 306))  # with
        kept.append(tracked(2))
    print(soscope_mem.stop())
    try:
        with soscope_mem.track():
            raise KeyError("mine")
    except KeyError as error:
        print(error, soscope_mem.stop())


def busy(number, count):
    mine = []
    for step in range(5000):
        value = (number, step)  # a tuple
        if step < count:
            mine.append(value)
    kept.append(mine)


def threads():
    """Make objects in many threads, while objects are counted again and again."""
    many = int(sys.argv[3])
    soscope_mem.start()
    running = [threading.Thread(target=busy, args=(number, 100)) for number in range(many)]
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running):
        soscope_mem.stats(OUT)
    for thread in running:
        thread.join()
    soscope_mem.stats(OUT)


def fork():
    child, again = OUT + ".child", OUT + ".again"
    soscope_mem.start()
    kept.extend(bytes(number) for number in range(300, 310))  # both
    if os.fork() == 0:
        kept.extend(bytes(number) for number in range(300, 305))  # child
        del kept[:4]
        soscope_mem.stats(child)
        said = [soscope_mem.stop()]
        said.append(soscope_mem.start())
        kept.extend(bytes(number) for number in range(300, 302))  # again
        soscope_mem.stats(again)
        print(*said, flush=True)
        os._exit(0)
    os.wait()
    kept.extend(bytes(number) for number in range(300, 303))  # parent
    soscope_mem.stats(OUT)


def older():
    """Objects that were there before are not counted, whatever becomes of them."""

    class Phoenix:
        def __del__(self):
            kept.append(self)

    birds = [Phoenix() for _ in range(7)]
    soscope_mem.start()
    del birds
    assert len(kept) == 7
    soscope_mem.stats()


def garbage():
    gc.disable()
    turns = itertools.repeat(None, 50)
    soscope_mem.start()
    for _ in turns:
        ring = []  # ring
        ring.append(ring)
    del ring
    soscope_mem.stats()
    soscope_mem.stats(OUT, gc=True)


def lines():
    text = "kept.append([bytes(300)])\n" * 3000
    code = compile(text, "lines.py", "exec")
    soscope_mem.start()
    exec(code)
    soscope_mem.stats(OUT)


def wait():
    """Be looked at from outside."""
    soscope_mem.start()
    kept.extend(bytes(number) for number in range(300, 310))  # ten objects, waiting
    print("here", flush=True)
    sys.stdin.readline()
    soscope_mem.stats()


def late():
    """Begin when soscope counts already."""
    print("here", flush=True)
    sys.stdin.readline()
    kept.extend(bytes(number) for number in range(300, 306))  # soscope's
    soscope_mem.start()
    kept.extend(bytes(number) for number in range(300, 310))  # own
    soscope_mem.stats()
    print(soscope_mem.stop(), flush=True)
    sys.stdin.readline()


def toggles():
    """Begin and end again and again, with threads at work and tracemalloc in between."""
    ended = threading.Event()

    def work():
        while not ended.is_set():
            [(number, [number], {number: number}, str(number)) for number in range(200)]

    running = [threading.Thread(target=work) for _ in range(4)]
    sys.setswitchinterval(0.0005)
    for thread in running:
        thread.start()
    try:
        for turn in range(12):
            assert soscope_mem.start()
            mine = [bytes(number) for number in range(300, 350)]  # toggled
            if turn % 10 == 0:
                tracemalloc.start()
            soscope_mem.stats(OUT + str(turn))
            if turn % 10 == 5:
                tracemalloc.stop()
            assert soscope_mem.stop()
            del mine
    finally:
        ended.set()
    for thread in running:
        thread.join()


def taken():
    """Take the interpreter's tracer away."""
    import ctypes

    soscope_mem.start()
    set_tracer = ctypes.pythonapi["PyRefTracer_SetTracer"]
    set_tracer.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    set_tracer(None, None)
    try:
        soscope_mem.stats()
    except soscope_mem.CountingError as error:
        print(error)


globals()[WAY]()
