# SPDX-License-Identifier: Apache-2.0
"""Keeps objects, says so, and goes on in the way that it is told, until SIGUSR1."""

import signal
import sys
import threading
import time


class Kept:
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number


kept = [Kept(number) for number in range(500)]  # alive: 500 Kept, 1 list
way = sys.argv[1]
goes_on = [True]
late = []
rounds = [0]


def busy(number):
    while goes_on[0]:
        made = [(number, turn) for turn in range(50)]
        rounds[0] += len(made) == 50


def grow():
    while goes_on[0]:
        late.append(Kept(None))  # late
        time.sleep(0.002)


signal.signal(signal.SIGUSR1, lambda *_: goes_on.clear() or goes_on.append(False))
print("here", flush=True)
if way == "idle":
    while goes_on[0]:
        signal.pause()
elif way == "busy":
    busy(0)
elif way == "spin":
    while goes_on[0]:
        pass
elif way == "threads":
    running = [threading.Thread(target=busy, args=(number,)) for number in range(4)]
    for thread in running:
        thread.start()
    while goes_on[0]:
        time.sleep(0.05)
    for thread in running:
        thread.join()
elif way == "grow":
    grow()
print("there", len(kept), sum(kept_one.number for kept_one in kept), flush=True)
