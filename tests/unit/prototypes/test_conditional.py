# SPDX-License-Identifier: Apache-2.0
"""Ops that depend on the value of another argument, run as the agent runs them."""

from __future__ import annotations

from struct import pack, unpack

import pytest

from soscope.errors import FormatError
from soscope.prototypes import catalog
from soscope.prototypes.capture import Op, first_of, without_ranges
from soscope.wire import layout
from tests.unit.prototypes.calls import programs

REGISTERS = [(0, 8), (1, 4), (2, 8)]


def op(item: int) -> Op:
    return layout.OP_STRING, 3, layout.LENGTH_LIMIT, 0, 0, 0, item


def kept(ops: list[Op], *words: int) -> list[int]:
    """Return the items that are kept of a call with these registers."""
    items, at = [], 0
    while at < len(ops):
        code, register, _, _, limit, flags, item = ops[at]
        if code != layout.OP_WHEN:
            items.append(item)
            at += 1
            continue
        holds = False
        if register != layout.ARG_RESULT:
            word = words[register] & (0xFFFF_FFFF if flags & layout.OP_INT_ARG else (1 << 64) - 1)
            for each in ops[at + 1 : at + 1 + limit]:
                first, last = unpack("<II", layout.OP.struct.pack(*each))
                is_in = word & first if flags & layout.OP_ANY_BIT else first <= word <= last
                holds = holds or bool(is_in)
        at += 1 + limit + (0 if holds else item)
    return items


def test_the_first_that_holds_is_kept_or_what_there_is_otherwise() -> None:
    choices: list[tuple[catalog.Conditions, list[Op]]] = [
        (((1, "==", (5, 6, 7, 9, -1)),), [op(1)]),
        (((1, "==", (8,)),), []),
        (((0, "&", (4, 16)), (1, "==", (10,))), [op(2), op(3)]),
        (((1, "==", (10,)),), [op(4)]),
    ]
    ops = first_of(choices, [op(0)], REGISTERS)
    for value in (5, 6, 7, 9, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF, 0x1_0000_0005):
        assert kept(ops, 0, value, 0) == [1], value
    assert kept(ops, 0, 8, 0) == []
    assert kept(ops, 16, 10, 0) == [2, 3]
    assert kept(ops, 3, 10, 0) == [4]
    assert kept(ops, 3, 11, 0) == [0]
    assert [each[0] for each in without_ranges(ops)].count(layout.OP_STRING) == 5


def test_a_long_is_compared_whole() -> None:
    ops = first_of([(((2, "==", (7,)),), [op(1)])], [], REGISTERS)
    assert kept(ops, 0, 0, 7) == [1]
    assert kept(ops, 0, 0, 0x1_0000_0007) == []


def test_nothing_is_run_for_what_leads_nowhere() -> None:
    first: catalog.Conditions = ((1, "==", (1, 2)),)
    other: catalog.Conditions = ((1, "==", (3,)),)
    assert first_of([(first, []), (other, [])], [], REGISTERS) == []
    # those of another value need not be told apart
    ops = first_of([(first, []), (other, [op(1)])], [], REGISTERS)
    assert len(ops) == 3
    assert (kept(ops, 0, 1), kept(ops, 0, 3)) == ([], [1])


def test_too_much_is_an_error() -> None:
    with pytest.raises(FormatError, match="too many values"):
        first_of([(((1, "==", tuple(range(0, 1000, 2))),), [op(1)])], [], REGISTERS)
    with pytest.raises(FormatError, match="32 bits"):
        first_of([(((2, "==", (1 << 40,)),), [op(1)])], [], REGISTERS)


def test_values_stand_in_the_place_of_ops() -> None:
    found = programs(
        "int f(int how, void *p AS(const char *p, how == 3 | 4) AS(int *p OUT(always), how == 9));"
    )
    when = next(each for each in found.at_entry if each[0] == layout.OP_WHEN)
    at = found.at_entry.index(when)
    assert layout.OP.struct.pack(*found.at_entry[at + 1]) == pack("<II", 3, 4)
    assert kept(found.at_entry[at:], 3, 0x1000) == [1]
    assert kept(found.at_entry[at:], 9, 0x1000) == []
    assert kept(found.at_exit, 9, 0x1000) == [1]
    assert kept(found.at_exit, 3, 0x1000) == []
    assert found.exit_words == 2
