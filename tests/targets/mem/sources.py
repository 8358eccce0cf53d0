# SPDX-License-Identifier: Apache-2.0
"""Each object is made by code of its own, more than there is room for, often at one address.

sources.py COUNT KEPT [wait]: the last KEPT of COUNT objects stay.
"""

import collections
import sys


def make():
    return set()


def run(count, most):
    kept = collections.deque(maxlen=most)
    kind = type(make)
    for line in range(1, count + 1):
        kept.append(kind(make.__code__.replace(co_firstlineno=line), {})())
    return kept


count, most = map(int, sys.argv[1:3])
if "wait" in sys.argv:
    print("here", flush=True)
    sys.stdin.readline()
kept = run(count, most)
if "wait" in sys.argv:
    print("there", flush=True)
    sys.stdin.readline()
