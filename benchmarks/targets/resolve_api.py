# SPDX-License-Identifier: Apache-2.0
"""Time soscope.Process: resolve_api.py PID few|names|addresses [FILE]; prints JSON, in ms."""

from __future__ import annotations

import json
import sys
import time

from soscope.live.process import Process


def _few(pid: int) -> dict[str, float]:
    """Time opening, the first symbol and the next ones, in an interpreter that is warm."""
    with Process(pid) as warm:  # imports are not what is asked for
        warm.resolve("malloc")
    start = time.perf_counter()
    process = Process(pid)
    opened = time.perf_counter()
    first = process.resolve("malloc")
    found = time.perf_counter()
    names = ["free", "environ", "stdout", "fopen", "getenv", "qsort", "printf", "exit"]
    answers = [process.resolve(name) for name in names]
    ended = time.perf_counter()
    assert first
    assert all(answers)
    return {
        "open": (opened - start) * 1e3,
        "first": (found - opened) * 1e3,
        "next": (ended - found) * 1e3 / len(names),
    }


def _names(pid: int, names: list[str]) -> dict[str, float]:
    with Process(pid) as warm:
        warm.answers(names[:2])
    start = time.perf_counter()
    with Process(pid) as process:
        answers = process.answers(names)
    ended = time.perf_counter()
    return {"ms": (ended - start) * 1e3, "found": sum(map(bool, answers))}


def _addresses(pid: int, addrs: list[int]) -> dict[str, float]:
    with Process(pid) as warm:
        warm.locate_all(addrs[:2])
    start = time.perf_counter()
    with Process(pid) as process:
        answers = process.locate_all(addrs)
    ended = time.perf_counter()
    return {"ms": (ended - start) * 1e3, "found": sum(map(bool, answers))}


def main() -> None:
    """Measure what the words say."""
    pid, what = int(sys.argv[1]), sys.argv[2]
    if what == "few":
        found = _few(pid)
    else:
        with open(sys.argv[3], encoding="ascii") as file:
            words = file.read().split()
        if what == "names":
            found = _names(pid, words)
        else:
            found = _addresses(pid, [int(word, 16) for word in words])
    print(json.dumps(found))


main()
