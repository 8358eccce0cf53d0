# SPDX-License-Identifier: Apache-2.0
"""Stubs are called under Unicorn: they go through the slot that was read from their code."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.model.filemap import JUMP_TABLE, OBJC_STUB
from tests.support.macho.machofiles import lld
from tests.support.macho.machomade import NAMES, made
from tests.support.truth.machorun import Runner
from tests.unit.binfmt.macho.test_shapes import opened

# Unicorn has no 64-bit PowerPC, and dyld writes the code of a jump table.
RUNNABLE = [name for name in NAMES if "ppc64" not in name and "jump" not in name]


@pytest.mark.parametrize("name", RUNNABLE)
def test_made(name: str) -> None:
    assert run(made(name).data) == sum(row.stub is not None for row in made(name).rows)


@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
@pytest.mark.parametrize("flag", ["-fixup_chains", "-no_fixup_chains"])
def test_lld(flag: str, arch: str, tmp_path: Path) -> None:
    assert run(lld(tmp_path, arch, flag).read_bytes()) >= 5


def run(data: bytes) -> int:
    """Call every stub twice; return how many there were."""
    image, runner = opened(data), Runner(data)
    slots = {slot.vaddr: slot for slot in image.slots}
    count = 0
    for stub in image.stubs:
        assert stub.kind != JUMP_TABLE
        slot = slots[stub.slot]
        first = runner.call(stub.vaddr)
        if stub.kind == OBJC_STUB:
            assert first.selector is not None
            assert first.slot == slot.vaddr
            continue
        count += 1
        if slot.helper is not None:
            # The way into the resolver, with what it is told.
            assert first.slot != slot.vaddr
            assert slot.resolver_argument in {*first.stack, *first.registers}
            runner.fill(slot.vaddr)
        assert runner.call(stub.vaddr).slot == slot.vaddr
    return count
