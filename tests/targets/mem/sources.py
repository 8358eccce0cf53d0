# SPDX-License-Identifier: Apache-2.0
"""Each object is made by code of its own, more than there is room for, often at one address."""

import sys


def make():
    return set()


def run(count):
    kept = []
    kind = type(make)
    for line in range(1, count + 1):
        kept.append(kind(make.__code__.replace(co_firstlineno=line), {})())
    return kept


count = int(sys.argv[1])
if "wait" in sys.argv:
    print("here", flush=True)
    sys.stdin.readline()
kept = run(count)
if "wait" in sys.argv:
    print("there", flush=True)
    sys.stdin.readline()
