# SPDX-License-Identifier: Apache-2.0
"""Objects whose survivors are known: the mark of a line says all that it leaves behind.

A mark is `alive:`, then `COUNT TYPE` for each type, or `none`; some hold since a version of CPython,
or before it. Lines without a mark leave what they like. The program runs on every CPython from 3.9 on, with its collector off.
"""

import array
import collections
import gc
import sys
import threading

gc.disable()
N = 1000
WIDE = "\u20ac" * 20
kept = []
keep = kept.append


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Phoenix:
    __slots__ = ("__weakref__",)
    risen = []

    def __del__(self):
        self.risen.append(self)


def strings():
    for i in range(N):
        keep(str(i) + "kept")  # alive: 1000 str
    for i in range(N):
        str(i) + "dropped"  # alive: none


def literals():
    for i in range(N):
        keep([i, i])  # alive: 1000 list
    for i in range(N):
        keep((i, "x"))  # alive: 1000 tuple
    for i in range(N):
        keep({i: i})  # alive: 1000 dict
    for i in range(N):
        keep({i})  # alive: 1000 set
    for i in range(N):
        keep(f"{i} {i}")  # alive: 1000 str


def numbers():
    for i in range(N):
        keep(i * 1.5)  # alive: 1000 float
    for i in range(N):
        keep(10**30 + i)  # alive: 1000 int
    for i in range(N):
        keep(complex(i, i))  # alive: 1000 complex
    for i in range(N):
        i * 1.5 + 10**20  # alive: none


def several():
    for i in range(N):
        keep([(i, 2), float(i), {i}])  # alive: 1000 list, 1000 tuple, 1000 float, 1000 set


def comprehension():
    keep([bytes(30) for i in range(N)])  # alive: 1000 bytes, 1 list
    keep({i: frozenset((i,)) for i in range(100)})  # alive: 100 frozenset, 1 dict


def temporaries():
    for i in range(N):
        a = [i]  # alive: none
        b = (i, a)  # alive: none
        c = {"k": b}  # alive: none
        d = Slots(c)  # alive: none
        del a, b, c, d


def free_lists():
    for i in range(60):
        a = [(i, i), [i], float(i), {}]  # alive: none
    del a
    for i in range(60):
        keep((i, -1))  # alive: 60 tuple
    for i in range(60):
        keep([i])  # alive: 60 list
    for i in range(60):
        keep(float(i))  # alive: 60 float


def cycles():
    for _ in range(N):
        a = []  # alive: 1000 list
        a.append(a)
    for _ in range(100):
        a = Slots(None)  # alive: 100 Slots
        a.b = a
    del a


def resized():
    for i in range(100):
        text = str(i)
        for _ in range(50):
            text += "more"  # alive: 100 str
        keep(text)
    for _ in range(100):
        keep(tuple(x for x in range(100)))  # alive: 100 tuple
    for _ in range(100):
        keep(b"".join([b"a" * 40, b"b"]))  # alive: 100 bytes


def wide():
    for i in range(N):
        keep(WIDE + str(i))  # alive: 1000 str


def instances():
    for i in range(N):
        keep(Slots(i))  # alive: 1000 Slots


def counting(most):  # alive since 3.11: 1 function, 100 generator
    yield from range(most)


def generators():
    for i in range(100):
        keep(counting(i))  # alive before 3.11: 100 generator, 100 frame


def closures():
    for i in range(100):
        keep(lambda: None)  # alive: 100 function


def extensions():
    for i in range(100):
        keep(array.array("i", [i]))  # alive: 100 array
    for i in range(100):
        keep(collections.deque((i,)))  # alive: 100 deque
    for i in range(100):
        keep(collections.OrderedDict())  # alive: 100 OrderedDict
    for i in range(100):
        keep(memoryview(b"x"))  # alive: 100 memoryview, 100 managedbuffer


def others():
    for i in range(100):
        keep(slice(i))  # alive: 100 slice
    for i in range(100):
        keep(range(i))  # alive: 100 range
    for i in range(100):
        keep(kept.append)  # alive: 100 builtin_function_or_method
    for i in range(100):
        keep(ValueError(i))  # alive: 100 ValueError, 100 tuple
    for i in range(100):
        keep(property())  # alive: 100 property
    for i in range(100):
        keep(iter([]))  # alive: 100 list, 100 list_iterator


def risen():
    for _ in range(12):
        Phoenix()  # alive: 12 Phoenix
    flock = [Phoenix() for _ in range(5)]  # alive: 5 Phoenix
    del flock


def busy(number):
    for i in range(5000):
        a = (number, i)  # alive: 6 tuple
        if i == 17:
            kept.append(a)
    for i in range(5000):
        b = [i]  # alive: none
    del b


def threads():
    running = [threading.Thread(target=busy, args=(number,)) for number in range(6)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def recursive(depth):
    if depth:
        keep((depth,))  # alive: 200 tuple
        recursive(depth - 1)


def compiled():
    for number in range(20):
        scope = {}
        text = f"def made(keep):\n    for i in range({number}, {number + 10}): keep([i])\n"
        exec(compile(text, f"made{number}.py", "exec"), scope)
        scope["made"](keep)


def main():
    strings()
    literals()
    numbers()
    several()
    comprehension()
    temporaries()
    free_lists()
    cycles()
    resized()
    wide()
    instances()
    generators()
    closures()
    extensions()
    others()
    risen()
    threads()
    recursive(200)
    compiled()
    print(len(kept))
    sys.stdout.flush()


main()
