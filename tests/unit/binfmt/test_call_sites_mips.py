# SPDX-License-Identifier: Apache-2.0
"""Calls through the GOT of MIPS, in code as compilers make it, and code that calls lead through."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from soscope.binfmt.elf.constants import DT_PLTGOT
from soscope.binfmt.elf.reader import Encoding
from soscope.binfmt.isa.mips import stubs
from soscope.binfmt.stubs.finder import Code

GOT, LOCAL = 0x108D0, 10
SLOT = GOT + 4 * LOCAL  # 28 - 7ff0 behind $gp
LOAD_T9, CALL, NOP = 0x8F998038, 0x0320F809, 0


class _Table:
    """What a decoder asks for of one image with two slots."""

    def __init__(self, order: str) -> None:
        tags = {
            DT_PLTGOT: GOT,
            stubs.DT_MIPS_LOCAL_GOTNO: LOCAL,
            stubs.DT_MIPS_GOTSYM: 6,
            stubs.DT_MIPS_SYMTABNO: 8,
        }
        self.got = GOT
        self.slots = {SLOT: False, SLOT + 4: False}
        self.image = SimpleNamespace(dynamic=tags, encoding=Encoding(32, order))


def _code(words: list[int], order: str) -> tuple[Code, Any]:
    data = struct.pack(f"{order}{len(words)}I", *words)
    return Code(0x740, data, None), cast("Any", _Table(order))


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_call_is_at_its_jump(order: str) -> None:
    by_copy = 0x8E198038  # lw $t9, -32712($s0)
    words = [NOP, LOAD_T9, 0x02002025, CALL, NOP, by_copy + 4, 0x03200008, NOP]
    found = list(stubs.in_place(*_code(words, order)))
    assert [(site.vaddr, site.slot, site.way) for site in found] == [
        (0x740 + 12, SLOT, "enter"),
        (0x740 + 24, SLOT + 4, "enter"),
    ]
    assert not list(stubs.unclear(*_code(words, order)))


def test_what_is_no_call_through_a_slot() -> None:
    on_stack = 0x8FB98038  # lw $t9, -32712($sp)
    other = LOAD_T9 + 8  # of a word that is no slot
    again = 0x8FB90018  # lw $t9, 24($sp)
    for words in ([on_stack, CALL, NOP], [other, CALL, NOP], [LOAD_T9, again, CALL, NOP]):
        assert not list(stubs.in_place(*_code(words, ">")))


def test_a_slot_that_code_keeps_may_be_called_elsewhere() -> None:
    kept, passed = 0x8F908038, 0x8F858038  # lw $s0, and $a1
    copied = 0x0200C825  # move $t9, $s0
    assert list(stubs.unclear(*_code([kept, NOP, copied, CALL, NOP], ">"))) == [SLOT]
    assert not list(stubs.unclear(*_code([kept, 0x03E00008, copied, CALL], ">")))
    assert not list(stubs.unclear(*_code([passed, copied, CALL, NOP], ">")))


@pytest.mark.parametrize("order", ["<", ">"])
def test_code_of_ours_finds_its_cell(order: str) -> None:
    """Interpreted, as far as it goes: $at is the cell's address, whatever its lower half is."""
    at, cells, count = 0x3F7F0000, 0x3F88FFF0, 40
    code = stubs.code(at, cells, count, order)
    assert len(code) == stubs.size(count)
    words = struct.unpack(f"{order}{len(code) // 4}I", code)
    for number in range(count):
        first = (stubs.noticed(at, number) - at) // 4
        lui, jump, addiu, _ = words[first : first + 4]
        low = (addiu & 0xFFFF ^ 0x8000) - 0x8000
        assert ((lui & 0xFFFF) << 16) + low == cells + 4 * number
        assert jump >> 26 == 2
        assert (jump & 0x3FFFFFF) << 2 | at & 0xF0000000 == at
        first = (stubs.passed(at, number) - at) // 4
        lui, load, jump, _ = words[first : first + 4]
        low = (load & 0xFFFF ^ 0x8000) - 0x8000
        assert ((lui & 0xFFFF) << 16) + low == cells + 4 * number
        assert (load >> 16, jump) == (0x8C39, 0x03200009)
    assert words[stubs.STOP // 4] == 0x03200009


def test_no_code_where_its_jumps_would_not_reach() -> None:
    assert stubs.code(0x3FFFFF00, 0x40010000, 40, "<") == b""
