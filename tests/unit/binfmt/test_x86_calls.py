# SPDX-License-Identifier: Apache-2.0
"""What code of x86-64 calls, and which addresses it takes: as objdump has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.isa.x86.code import addresses, direct_calls
from soscope.linker.library import open_image
from tests.support.files.elffiles import built, run
from tests.support.machines.tools import need

Line = tuple[int, str, str, int]
_LINE = re.compile(r"^ *([0-9a-f]+):\t(?:addr32 |bnd )?(\w+) *(.*?)(?: +# ([0-9a-f]+) <.*)?$")


@pytest.fixture(scope="module")
def library() -> Path:
    """A library with a megabyte of code that was not written for us."""
    return Path(run("g++", "-print-file-name=libstdc++.so.6").strip()).resolve()


def _code(path: Path) -> list[tuple[int, bytes]]:
    image = open_image(str(path))
    return [
        (segment.vaddr, image.source.read(segment.offset, segment.filesz))
        for segment in image.segments
        if segment.type == c.PT_LOAD and segment.flags & c.PF_X
    ]


@pytest.fixture(scope="module")
def listed(library: Path) -> list[Line]:
    """Address, name, operands and what a line's remark leads to, of each instruction."""
    need("objdump")
    text = run("objdump", "-d", "--no-show-raw-insn", library)
    rows = filter(None, map(_LINE.match, text.splitlines()))
    return [(int(row[1], 16), row[2], row[3], int(row[4] or "0", 16)) for row in rows]


@pytest.mark.slow
def test_calls_are_those_that_objdump_prints(library: Path, listed: list[Line]) -> None:
    called: dict[int, list[int]] = {}
    for index, (_, name, operands, _) in enumerate(listed[:-1]):
        operand = re.match(r"([0-9a-f]+) <", operands)
        behind = listed[index + 1][0]
        # jumps over less than 128 bytes have another form, and two bytes
        if operand and (name == "call" or (name == "jmp" and behind - listed[index][0] >= 5)):
            called.setdefault(int(operand[1], 16), []).append(behind)
    often = sorted(called, key=lambda target: -len(called[target]))[:12]
    code = _code(library)
    for target in (*often, *sorted(called)[:12]):
        found = [place for at, data in code for place in direct_calls(data, at, [target])]
        assert found == sorted(called[target]), hex(target)


@pytest.mark.slow
def test_addresses_are_those_that_objdump_prints(library: Path, listed: list[Line]) -> None:
    wanted = {
        (at, target)
        for at, name, operands, target in listed
        if target and name == "lea" and operands.split(",")[-1].strip().startswith("%r")
    }
    loaded = {
        (at, target)
        for at, name, operands, target in listed
        if target and name == "mov" and re.search(r"\(%rip\),%[re]?[a-z0-9]+$", operands)
    }
    taken: set[tuple[int, int]] = set()
    words: set[tuple[int, int]] = set()
    for at, data in _code(library):
        rows = addresses(data, at, by_number=False)
        taken.update(rows[0])
        words.update(rows[1])
    # they are found at their opcodes: a prefix stands before that
    assert len(wanted) > 50
    assert {(at + 1, target) for at, target in wanted} <= taken
    assert len(loaded) > 50
    assert all({(at, target), (at + 1, target)} & words for at, target in loaded)


def test_addresses_as_numbers(tmp_path: Path) -> None:
    need("clang")  # gcc stores this one without a register
    text = "void take(void *p) { (void)p; } int main(void) { take((void *)main); return 0; }"
    path = built(tmp_path, "program", text, "-no-pie", "-fno-pie", "-O0", compiler="clang")
    own = re.search(r"^([0-9a-f]+) T main$", run("nm", path), re.MULTILINE)
    assert own is not None
    for by_number in (True, False):
        taken = [
            target
            for at, data in _code(path)
            for _, target in addresses(data, at, by_number=by_number)[0]
        ]
        assert (int(own[1], 16) in taken) is by_number


def test_too_little_code() -> None:
    assert addresses(b"\x48\x8d", 0, by_number=True) == ([], [])
    assert direct_calls(b"\xe8\0", 0, [6]) == []
    assert direct_calls(b"\xe8\1\0\0\0", 0x1000, [0x1006, 0x1007]) == [0x1005]
