# SPDX-License-Identifier: Apache-2.0
"""A run has the calls that a walk from unit to unit finds, as far as they have as much data."""

from __future__ import annotations

import random
import struct
from typing import Any

from soscope.recording import units as runs
from soscope.wire import layout

UNIT = struct.Struct("<IIQQQ")
DATA, EXIT = layout.UNIT_DATA, layout.UNIT_EXIT
BEGINS = (layout.UNIT_WHOLE, layout.UNIT_ENTRY, layout.UNIT_OPEN)


def made(seed: int) -> list[tuple[int, bytes]]:
    """Return units, each with its type: calls of few shapes, sometimes none in between."""
    choice = random.Random(seed).choice
    kinds: list[int] = []
    for _ in range(60):
        begin = choice((*BEGINS, layout.UNIT_WHOLE, layout.UNIT_OVERHEAD))
        record = [begin] + [DATA] * choice((0, 1, 2))
        if begin in BEGINS[1:]:
            record += [EXIT] + [DATA] * choice((0, 0, 1))
        kinds += record * choice((1, 2, 40))
    return [(kind, UNIT.pack(kind << 28 | at, at, at, at, at)) for at, kind in enumerate(kinds)]


def records(units: list[tuple[int, bytes]], at: int) -> list[list[int]]:
    """Return the numbers of the units of each record from `at` on: its data, exit, more data."""
    found: list[list[int]] = []
    while at < len(units):
        end = at + 1
        while end < len(units) and units[end][0] == DATA:
            end += 1
        if units[at][0] in BEGINS[1:] and end < len(units) and units[end][0] == EXIT:
            end += 1
            while end < len(units) and units[end][0] == DATA:
                end += 1
        found.append(list(range(at, end)))
        at = end
    return found


def test_a_run_is_what_a_walk_finds() -> None:
    lengths = set()
    for seed in range(20):
        units = made(seed)
        content = b"".join(unit for _, unit in units)
        letters = runs.letters_of(content)
        at = 0
        while at < len(units):
            walked = records(units, at)
            run = runs.run_at(letters, content, at)
            first = [units[number][0] for number in walked[0]]
            if run is None:
                assert first[0] not in BEGINS or (first[0] in BEGINS[1:] and EXIT not in first)
                at += len(walked[0])
                continue
            size, rows = run
            expected = []
            for record in walked:
                if [units[number][0] for number in record] != first:
                    break
                expected.append(b"".join(units[number][1] for number in record))
            got = list(rows)
            assert size == len(walked[0])
            assert [again(row) for row in got] == expected
            lengths.add(len(got))
            at += size * len(got)
    assert max(lengths) >= 40
    assert 1 in lengths


def again(row: tuple[Any, ...]) -> bytes:
    """Return the bytes that a row was made of."""
    content = UNIT.pack(*row[:5]) + bytes(row[5])
    if len(row) > 6:
        content += UNIT.pack(*row[6:11]) + bytes(row[11])
    return content
