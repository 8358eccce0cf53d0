# SPDX-License-Identifier: Apache-2.0
"""Stubs of Mach-O images of every generation, run: what they do is what was written, and read."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from soscope.binfmt.macho.fat import slices
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError, SoscopeError
from soscope.inspect.check.check import check
from soscope.inspect.check.emulate import Emulator, disagreement, run_macho
from soscope.inspect.check.processors import macho_processor
from soscope.linker.image import Image
from soscope.model.arch import arch_named
from soscope.model.filemap import JUMP_TABLE, LAZY, OBJC_STUB
from tests.support.files import damage
from tests.support.macho import machoshapes as s
from tests.support.macho.machofiles import SELECTORS, lld
from tests.support.macho.machomade import NAMES, made

_RUNNABLE = [name for name in NAMES if "ppc64" not in name and "jump" not in name]


def _mapped(data: bytes) -> MachoMap:
    source = BufferSource(data)
    (part,) = slices(source)
    return MachoMap(source, part)


def _wrong(mapped: MachoMap) -> list[str]:
    slots = {one.vaddr: one for one in mapped.slots}
    found = [(slots[ran.stub.slot], ran) for ran in run_macho(mapped)]
    return [f"{slot.symbol}: {why}" for slot, ran in found if (why := disagreement(slot, ran))]


@pytest.mark.parametrize("name", _RUNNABLE)
def test_every_stub_does_what_was_written(name: str) -> None:
    """The truth is the writer's: slots, what helpers hand over, selectors."""
    truth = made(name)
    mapped = _mapped(truth.data)
    assert _wrong(mapped) == []
    ran = {one.stub.vaddr: one for one in run_macho(mapped)}
    rows = {row.stub: row for row in truth.rows if row.stub is not None}
    assert ran.keys() == {*rows, *truth.selectors}
    for stub, row in rows.items():
        assert (ran[stub].slot, ran[stub].argument) == (row.slot, row.argument)
    assert {stub: ran[stub].selector for stub in truth.selectors} == truth.selectors


def test_a_jump_table_is_left_out() -> None:
    mapped = _mapped(made("classic-i386-jump-dylib").data)
    assert {one.kind for one in mapped.stubs} == {JUMP_TABLE}
    assert list(run_macho(mapped)) == []


@pytest.mark.parametrize("flag", ["-fixup_chains", "-no_fixup_chains"])
@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
def test_lld(arch: str, flag: str, tmp_path: Path) -> None:
    mapped = _mapped(lld(tmp_path, arch, flag).read_bytes())
    assert _wrong(mapped) == []
    ran = list(run_macho(mapped))
    assert len(ran) == len(mapped.stubs) >= 5
    lazy = {stub for slot in mapped.slots if slot.binding == LAZY for stub in slot.stubs}
    assert bool(lazy) == (flag == "-no_fixup_chains")
    assert {one.stub for one in ran if one.argument is not None} >= lazy


@pytest.mark.parametrize(
    ("arch", "flags"),
    [
        ("x86_64", ("-fixup_chains", "-objc_stubs_fast")),
        ("arm64", ("-fixup_chains", "-objc_stubs_fast")),
        ("arm64", ("-fixup_chains", "-objc_stubs_small")),
        ("arm64", ("-no_fixup_chains", "-objc_stubs_small")),
    ],
)
def test_methods_that_lld_calls(arch: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    mapped = _mapped(lld(tmp_path, arch, *flags, objc=True).read_bytes())
    assert _wrong(mapped) == []
    ran = [one for one in run_macho(mapped) if one.stub.kind == OBJC_STUB]
    assert {one.selector for one in ran} == set(SELECTORS)


# ---- what is wrong is seen ----


@pytest.mark.parametrize("arch", ["i386", "x86_64", "armv7", "arm64", "arm64_32"])
def test_helpers_that_have_changed_places(arch: str) -> None:
    truth = made(f"info-{arch}-dylib")
    mapped = _mapped(truth.data)
    one, other = [slot for slot in mapped.slots if slot.binding == LAZY][:2]
    data = bytearray(truth.data)
    assert one.offset is not None
    assert other.helper is not None
    size = mapped.bits // 8
    data[one.offset : one.offset + size] = other.helper.to_bytes(size, "little")
    given, right = other.resolver_argument, one.resolver_argument
    assert given is not None
    assert right is not None
    said = f"{one.symbol}: the resolver is given {given:#x}, not {right:#x}"
    assert _wrong(_mapped(bytes(data))) == [said]


@pytest.mark.parametrize("arch", ["i386", "x86_64", "armv7", "arm64"])
def test_helpers_that_all_hand_over_the_first_record(arch: str) -> None:
    mapped = _mapped(s.dyld_info(arch, lazy_offset=0).data)
    lazy = [one for one in mapped.slots if one.resolver_argument and one.stubs]
    assert len(lazy) > 5
    assert _wrong(mapped) == [
        f"{one.symbol}: the resolver is given 0x0, not {one.resolver_argument:#x}"
        for one in sorted(lazy, key=lambda one: one.stubs[0].vaddr)
    ]


def _patched(name: str, place: Callable[[MachoMap], int], data: bytes) -> MachoMap:
    image = bytearray(made(name).data)
    mapped = _mapped(bytes(image))
    offset = mapped.image.offset_of(place(mapped))
    assert offset is not None
    image[offset : offset + len(data)] = data
    return _mapped(bytes(image))


def _shared(mapped: MachoMap) -> int:
    """Return where all helpers go on to."""
    slot = next(one for one in mapped.slots if one.binding == LAZY)
    helper = mapped.decoded.helper(slot.helper or 0)
    assert helper is not None
    return helper.leads_to


def test_helpers_that_give_dyld_a_place_of_nobody() -> None:
    mapped = _patched("info-x86_64-dylib", lambda one: _shared(one) + 3, struct.pack("<i", 0x100))
    wrong = _wrong(mapped)
    assert len(wrong) > 5
    assert all("which is no word that dyld may keep" in one for one in wrong)
    mapped = _patched("classic-i386-stub-dylib", lambda one: _shared(one) + 1, b"\x04")
    wrong = _wrong(mapped)
    assert len(wrong) > 5
    assert all("dyld is given 0x4, which is no image's header" in one for one in wrong)


def test_helpers_that_lead_astray() -> None:
    mapped = _patched("info-arm64-dylib", _shared, struct.pack("<I", 0xD65F03C0))  # ret
    wrong = _wrong(mapped)
    # What is bound when the image is loaded does not need its helper.
    assert len(wrong) == sum(len(one.stubs) for one in mapped.slots if one.binding == LAZY)
    assert all(": the first call: " in one for one in wrong)


def test_a_stub_that_asks_for_another_method() -> None:
    """Both come from the same pointer: only an error of ours makes them differ."""
    truth = made("chained-x86_64-6-1")
    mapped = _mapped(truth.data)
    ran = [one for one in run_macho(mapped) if one.stub.kind == OBJC_STUB]
    slots = {one.vaddr: one for one in mapped.slots}
    for one in ran:
        slot = slots[one.stub.slot]
        assert disagreement(slot, one) == ""
        other = one._replace(selector="other")
        assert disagreement(slot, other) == f"it asks for the method other, not {one.selector}"


@pytest.mark.parametrize("name", ["classic-ppc64-pic-dylib", "classic-ppc64-pic-executable"])
def test_a_processor_that_nobody_emulates(name: str) -> None:
    with pytest.raises(SoscopeError) as caught:
        list(run_macho(_mapped(made(name).data)))
    assert caught.value.slug == "no-emulator"


def test_what_is_not_linked_yet() -> None:
    data = bytearray(made("classic-i386-stub-dylib").data)
    data[12] = 1  # MH_OBJECT
    with pytest.raises(SoscopeError, match="an object file") as caught:
        list(run_macho(_mapped(bytes(data))))
    assert caught.value.slug == "no-emulator"


# ---- damaged files ----


@pytest.mark.slow
def test_damaged_images_are_run_or_counted(tmp_path: Path) -> None:
    """Nothing but errors that are meant, within bounds; what was not run is said."""
    files = []
    for name in NAMES:
        path = tmp_path / name
        path.write_bytes(made(name).data)
        files.append(path)
    ran = 0
    for number in range(150):
        _, data = damage.copy(number, files)
        try:
            image = Image.open(_file(tmp_path, data))
        except FormatError:
            continue  # so damaged that it is refused: nothing to run
        checked = check(image, run=True)
        assert checked.ran is not None
        assert checked.not_run is not None
        stubs = {one.vaddr for one in image.stubs}
        assert checked.ran + sum(checked.not_run.values()) == len(stubs)
        ran += checked.ran
    assert ran > 1000


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "copy"
    path.write_bytes(data)
    return path


def test_memory_that_the_file_does_not_pay_for() -> None:
    arch = arch_named("x86-64")
    assert arch is not None
    processor = macho_processor(arch)
    assert processor is not None
    cpu = processor.cpu
    end = 1 << 35
    machine = Emulator(cpu, lambda addr, size: bytes(size) if addr < end else b"", end, 1 << 20)
    there = [machine.put(at << 20, 1) for at in range(4096)]
    assert 32 <= sum(there) <= 2048
    assert there == sorted(there, reverse=True)


def test_more_segments_than_anybody_has() -> None:
    mapped = _mapped(made("info-arm64-dylib").data)
    mapped.image.segments *= 100
    with pytest.raises(SoscopeError, match=r"[0-9]{3} segments"):
        list(run_macho(mapped))
