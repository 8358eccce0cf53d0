# SPDX-License-Identifier: Apache-2.0
"""Keep blocks whose stacks are told by the interpreter, too: for each a line of JSON.

[size, [[name, file, line], ...]], the innermost first. The name of what ends the program may be
given: kill.
"""

import ctypes
import functools
import json
import os
import signal
import sys
import threading

kept = []
said = []


def frames(frame):
    stack = []
    while frame is not None:
        code = frame.f_code
        stack.append([code.co_name, code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return stack


def take(size):
    # both are of one line, which is the one that is told
    kept.append(bytearray(size - 1)); said.append([size, frames(sys._getframe())])  # noqa: E702


class Ordered:
    def __init__(self, size):
        self.size = size

    def __lt__(self, other):
        take(self.size)
        return False


def generator(size):
    for more in range(2):
        take(size + more)
        yield more
    yield from inner_generator(size + 2)


def inner_generator(size):
    yield take(size)


async def coroutine(size):
    await other_coroutine(size)


async def other_coroutine(size):
    take(size)


def recurse(size, depth):
    if depth:
        recurse(size, depth - 1)
    else:
        take(size)


def recurse_in_c(size, depth):
    list(map(recurse_in_c if depth else take_second, [size], [depth - 1]))


def take_second(size, unused):
    take(size)


def in_class(number):
    class Inside:
        take(number)

    return [take(number + 1) for _ in range(1)], (lambda: take(number + 2))()


class Library:
    """The C library, whose functions are called with the lock or without it."""

    def __init__(self, load):
        self.strdup, self.qsort = load(None).strdup, load(None).qsort
        self.strdup.restype = ctypes.c_void_p
        self.strdup.argtypes = [ctypes.c_char_p]

    def take(self, size):
        text = b"a" * (size - 1)
        # both are of one line
        self.strdup(text); said.append([size, frames(sys._getframe())])  # noqa: E702

    def take_deep(self, size, depth):
        if depth:
            self.take_deep(size, depth - 1)
        else:
            self.take(size)

    def take_called_back(self, size):
        def compare(a, b):
            self.take(size)
            return 0

        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self.qsort((ctypes.c_int * 2)(), 2, 4, kind(compare))


def without_lock():
    """Let C code allocate while this thread does not hold the lock, and then while it does."""
    for load, size in ((ctypes.CDLL, 70_000), (ctypes.PyDLL, 71_000)):
        library = Library(load)
        library.take(size + 1)
        library.take_deep(size + 2, 20)
        library.take_called_back(size + 3)
        other = threading.Thread(target=library.take_deep, args=(size + 4, 20))
        other.start()
        other.join()


def gone(size):
    """Run code that is gone afterwards, and whose place others take."""
    for number in range(3):
        text = "\n" * (10 * number) + f"def passing{number}(size):\n    take(size)\n"
        names = {"take": take}
        exec(compile(text, f"<gone {number}>", "exec"), names)
        names[f"passing{number}"](size + number)
        del names


def end(how):
    if how == "kill":
        os.write(1, "".join(json.dumps(row) + "\n" for row in said).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if not child:
        said.clear()
        take(90_001)
        gone(90_101)
        os.write(1, "".join(json.dumps(row) + "\n" for row in said).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.write(1, "".join(json.dumps(row) + "\n" for row in said).encode())
    os._exit(0)


def main():
    take(10_001)
    sorted([Ordered(10_101), Ordered(10_102)])
    list(generator(10_201))
    list(map(lambda size: take(size), [10_301, 10_302]))
    functools.reduce(lambda size, more: take(size + more), [10_400, 1])
    try:
        coroutine(10_501).send(None)
    except StopIteration:
        pass  # it waits for nothing
    for depth in (5, 40, 200):
        recurse(20_000 + depth, depth)
        recurse_in_c(30_000 + depth, depth)
    in_class(40_001)
    threads = [threading.Thread(target=take, args=(50_001 + number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gone(60_001)
    without_lock()
    end(sys.argv[1] if len(sys.argv) > 1 else "")


main()
