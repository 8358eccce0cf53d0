# SPDX-License-Identifier: Apache-2.0
"""Make and drop small objects, some of which stay: the CPU time of each part, in ns an object."""

from __future__ import annotations

import sys
import time

PARTS, TURNS = int(sys.argv[1]), int(sys.argv[2])
OBJECTS = 8  # that a turn makes


class Node:
    """A pair."""

    __slots__ = ("first", "second")

    def __init__(self, first: object, second: object) -> None:
        self.first = first
        self.second = second


def part() -> list[object]:
    """Make what a hundredth of stays."""
    kept: list[object] = []
    for turn in range(TURNS):
        pair = (turn, turn + 1000, str(turn))
        table = {"key": pair}
        row = [Node(pair, table), turn * 0.5]
        if turn % 100 == 0:
            kept.append(row)
    return kept


for _ in range(PARTS):
    start = time.process_time()
    part()
    print(1e9 * (time.process_time() - start) / (TURNS * OBJECTS))
