# SPDX-License-Identifier: Apache-2.0
"""Traps in code: put, undone, and undone in the memory of children that were forked meanwhile.

The code lies in this process's own memory, which nobody runs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator

import pytest

from soscope.binfmt.elf.reader import encoding
from soscope.entry.native.isa import machine_of
from soscope.entry.native.traps import NativeMemory, Traps
from soscope.model.arch import ARCHES

CODE = bytes.fromhex("ff25 00000000 90 c3") * 64  # jmp *0(%rip); nop; ret
STEP = 8


class Place:
    """A page of code, and traps in it."""

    def __init__(self) -> None:
        self.page = mmap.mmap(-1, mmap.PAGESIZE)
        self.page[: len(CODE)] = CODE
        self.addr = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        machine = next(each for each in map(machine_of, ARCHES) if each is not None)
        self.memory = NativeMemory(os.getpid(), encoding(64, "<"))
        self.traps = Traps(self.memory, machine)

    def fork(self) -> int:
        """Return an open file that holds at each address what memory holds now."""
        file = os.memfd_create("child")
        os.pwrite(file, self.page[:], self.addr)
        return file

    def held(self, file: int) -> bytes:
        """Return what the code is in such a file."""
        return os.pread(file, len(CODE), self.addr)


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.memory.close()


def test_one_byte_changes_and_comes_back(place: Place) -> None:
    for number in range(10):
        assert place.traps.put(place.addr + number * STEP, "site") is not None
    changed = [at for at in range(len(CODE)) if place.page[at] != CODE[at]]
    assert changed == [number * STEP for number in range(10)]
    place.traps.remove_all()
    assert place.page[: len(CODE)] == CODE


def test_a_return_is_trapped_where_an_instruction_can_be_done_elsewhere(place: Place) -> None:
    behind = place.addr + 7  # a return, which needs no copy
    trap = place.traps.put_back(behind, set())
    assert trap is not None
    assert trap.is_doubtful
    assert place.traps.put_back(behind, set()) is trap
    # a no-operation needs a copy, and there is no room for one
    assert place.traps.put_back(place.addr + 6, set()) is None
    place.traps.remove_all()
    assert place.page[: len(CODE)] == CODE


@pytest.mark.parametrize("undone", ["never", "all", "one by one"])
def test_children_are_cleaned_of_what_was_there_when_they_were_forked(
    undone: str, place: Place
) -> None:
    traps = [place.traps.put(place.addr + number * STEP, "site") for number in range(10)]
    child = place.fork()
    if undone == "all":
        place.traps.remove_all()
    elif undone == "one by one":
        for trap in traps:
            assert trap is not None
            place.traps.remove(trap)
    assert place.held(child) != CODE
    place.traps.clean(child)
    assert place.held(child) == CODE
    os.close(child)


def test_what_somebody_else_has_put_is_left(place: Place) -> None:
    place.page[0] = 0xCC
    assert place.traps.put(place.addr, "site") is None
    child = place.fork()
    place.traps.clean(child)
    assert place.held(child)[0] == 0xCC
    os.close(child)
