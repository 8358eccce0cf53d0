# SPDX-License-Identifier: Apache-2.0
"""Slots and stubs of every shape that compilers and linkers make for x86.

Slots are compared with readelf, names with nm. Where a stub leads is found by running it: all code
of the PLT sections is tried at every eighth byte.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.isa.x86.stubs import X86Stubs
from soscope.binfmt.source import BufferSource
from soscope.model.filemap import IRELATIVE, LAZY, NOW, PRELINKED, TLSDESC, FileSlot, Stub
from tests.support.files.elffiles import run
from tests.support.files.elfshapes import SHAPES, VARIANTS, Shape, build
from tests.support.truth.elftruth import got_of, slots_by_readelf, stubs_by_objdump
from tests.support.truth.mapcompare import ours, slot_differences, stub_differences
from tests.support.truth.stubrun import StubRunner

_TRIED = 4  # bytes: where code is tried to be run


def _map(path: Path) -> ElfMap:
    return ElfMap(ElfImage.from_source(BufferSource(path.read_bytes(), str(path))))


def _symbols(path: Path) -> dict[str, int]:
    """Return vaddr by name of all symbols that nm lists."""
    rows = re.findall(r"^([0-9a-f]+) \w (\S+)$", run("nm", path), re.MULTILINE)
    return {name: int(vaddr, 16) for vaddr, name in rows}


def _base(path: Path) -> int:
    """Return what the functions of a file have in %ebx, 0 for none.

    The symbol _GLOBAL_OFFSET_TABLE_ does not tell: mold gives it another value than its code.
    """
    found = re.search(
        r"call .*<__x86.get_pc_thunk.bx>\n +([0-9a-f]+):\tadd +\$(0x[0-9a-f]+),%ebx"
        r"| ([0-9a-f]+):\tpop +%ebx\n.*\tadd +\$(0x[0-9a-f]+),%ebx",
        run("objdump", "-d", "--no-show-raw-insn", "-j", ".text", path),
    )
    if found is None:
        return 0
    return int(found[1] or found[3], 16) + int(found[2] or found[4], 16) & 0xFFFF_FFFF


class Plain(NamedTuple):
    """What must be the same however the file's section headers are."""

    slots: Sequence[tuple[object, ...]]
    stubs: list[tuple[int, int, int]]


def _plain(found: ElfMap) -> Plain:
    slots = [
        (
            *(one.vaddr, one.offset, one.kind, one.version, one.binding, one.defined_here),
            *(one.library, one.resolver_argument, one.helper, one.symbol_type),
            "" if one.binding == IRELATIVE else one.symbol,
        )
        for one in found.slots
    ]
    stubs = [(one.vaddr, one.size, one.slot) for one in _stubs(found)]
    return Plain(slots, stubs)


def _stubs(found: ElfMap) -> list[Stub]:
    return sorted(stub for slot in found.slots for stub in slot.stubs)


def _binding(shape: Shape, slot: FileSlot) -> str:
    if slot.kind.endswith("IRELATIVE"):
        return IRELATIVE
    if shape.name == "prelinked":
        return PRELINKED
    if slot.kind.endswith(("TLSDESC", "TLS_DESC")):
        return TLSDESC
    is_now = shape.compiler == "musl-gcc" or "-Wl,-z,lazy" not in shape.words
    return LAZY if slot.kind.endswith("JUMP_SLOT") and not is_now else NOW


@pytest.mark.every(4)
@pytest.mark.parametrize("shape", SHAPES, ids=[one.id for one in SHAPES])
def test_shape(shape: Shape, tmp_path: Path) -> None:
    path = build(shape, tmp_path)
    found = _map(path)
    told = slots_by_readelf([path])[str(path)]
    mine = ours(str(path))
    assert mine.partial == ()
    assert mine.slots
    assert list(slot_differences(mine, told)) == []
    if shape.linker == "bfd":  # objdump knows no other linker well
        different = stub_differences(mine, stubs_by_objdump([path])[str(path)])
        assert [one for one in different if "objdump has none" not in one[0]] == []

    symbols = _symbols(path)
    runner = StubRunner(path, told, _base(path), got_of(path))
    _check_stubs(found, runner)
    for slot in found.slots:
        assert slot.binding == _binding(shape, slot), slot
        if slot.binding == LAZY:
            assert slot.helper == runner.before[slot.vaddr]
            assert slot.stubs
            for stub in slot.stubs:
                led = runner.first(stub.vaddr, slot.vaddr)
                assert led is not None, (slot, stub)
                assert led.argument == slot.resolver_argument, slot
        else:
            assert (slot.helper, slot.resolver_argument) == (None, None)
        if slot.binding == IRELATIVE:
            vaddr = told[slot.vaddr].addend or runner.before[slot.vaddr]
            assert symbols[slot.symbol] == vaddr, slot
            assert slot.stubs or shape.name.startswith("no-plt"), slot
    kinds = [one.kind for slot in found.slots if slot.symbol == "malloc" for one in slot.stubs]
    assert kinds == [shape.kind] * bool(shape.kind)
    assert _names(found) == _dynamic_names(path)
    _check_single_stubs(found)
    _check_variants(path, tmp_path, found, shape)


def _check_single_stubs(found: ElfMap) -> None:
    """Ask for the stub at one address, as it is done for processes."""
    if not found.image.dynamic.entries:
        return
    single = X86Stubs(found.image, found.sections)
    for stub in _stubs(found):
        for vaddr in (stub.vaddr, stub.vaddr + stub.size - 1):
            one = single.at(vaddr)
            assert one is not None
            assert (one.vaddr, one.size, one.slot) == (stub.vaddr, stub.size, stub.slot)


def _check_stubs(found: ElfMap, runner: StubRunner) -> None:
    """Compare the stubs with where all code of the PLT sections leads."""
    inside: dict[int, Stub] = {}
    for stub in _stubs(found):
        led = runner.second(stub.vaddr)
        assert led is not None, stub
        assert led.slot == stub.slot, stub
        for vaddr in range(stub.vaddr, stub.vaddr + stub.size):
            assert inside.setdefault(vaddr, stub) is stub, "two stubs at once"
    for section in found.sections.all:
        if not section.name.startswith((".plt", ".iplt")):
            continue
        for vaddr in range(section.vaddr, section.vaddr + section.size, _TRIED):
            if vaddr not in inside:
                led = runner.second(vaddr)
                # the padding in front of a stub leads into it
                is_before = any(vaddr + more in inside for more in range(16))
                assert led is None or led.slot is None or is_before, hex(vaddr)


def _check_variants(path: Path, folder: Path, found: ElfMap, shape: Shape) -> None:
    expected = _plain(found)
    for name, change in VARIANTS.items():
        if name.startswith("headers-") and shape.linker != "bfd":
            continue  # what is in the file makes no difference then
        copy = folder / name
        shutil.copy(path, copy)
        change(copy)
        variant = _map(copy)
        assert _plain(variant) == expected, name
        if name == "stripped":
            assert variant.partial == []
            assert [one.section for one in variant.slots] == [one.section for one in found.slots]
        else:
            assert {one.section for one in variant.slots} == {None}, name
            reasons = [] if name == "no-headers" else [f"section headers: {variant.sections.why}"]
            assert variant.partial == reasons


def _names(found: ElfMap) -> list[str]:
    return [f"{one.name}@{one.version}" if one.version else one.name for one in found.symbols]


def _dynamic_names(path: Path) -> list[str]:
    text = run("readelf", "-W", "--dyn-syms", path)
    rows = [line.split() for line in text.splitlines() if re.match(r" +[1-9]\d*: ", line)]
    names = [words[-2] if words[-1].startswith("(") else words[-1] for words in rows]
    return [name.replace("@@", "@") for name in names]
