# SPDX-License-Identifier: Apache-2.0
"""Images of every generation and architecture: what was written is what is read."""

from __future__ import annotations

import pytest

from soscope.binfmt.macho.fat import Slice, embedded, slices
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import BufferSource
from soscope.model import filemap as model
from tests.support.macho import machoshapes as shapes
from tests.support.macho import machowriter as writer
from tests.support.macho.machocode import ARCHS
from tests.support.macho.machomade import KINDS, NAMES, made

_BINDING = {
    frozenset({"lazy"}): model.LAZY,
    frozenset({"now"}): model.NOW,
}


def opened(data: bytes) -> MachoMap:
    source = BufferSource(data)
    [part] = slices(source)
    return MachoMap(source, part)


@pytest.mark.parametrize("name", NAMES)
def test_every_slot(name: str) -> None:
    wanted = made(name)
    found = opened(wanted.data)
    assert (found.format, found.arch) == (model.MACHO, wanted.arch)
    assert found.bits == ARCHS[wanted.arch].bits
    assert found.endian == ("big" if wanted.arch.startswith("ppc") else "little")
    assert found.needed == tuple(library for library, _ in shapes.LIBRARIES)
    assert found.build_id == writer.UUID.hex()
    rows = {row.slot: row for row in wanted.rows if row.is_slot}
    assert {slot.vaddr for slot in found.slots} == set(rows)
    for slot in found.slots:
        row = rows[slot.vaddr]
        weak = "weak" in row.how
        assert slot.symbol == row.symbol
        assert slot.offset == row.offset
        assert slot.section == row.section
        assert slot.library == row.library
        assert slot.binding == (model.WEAK if weak else _BINDING[row.how])
        assert slot.helper == row.helper
        assert slot.resolver_argument == row.argument
        assert slot.signed == (model.Signed(*row.signed) if row.signed else None)
        assert slot.defined_here == row.defined
        ours = [stub for stub in slot.stubs if stub.kind != model.OBJC_STUB]
        assert [(one.vaddr, one.section) for one in ours] == (
            [(row.stub, row.stub_section)] if row.stub is not None else []
        )
    assert found.stubs_without_slot == ()
    assert found.partial == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_bind(name: str) -> None:
    wanted = made(name)
    image = opened(wanted.data)
    # What has no record at all is bound by the indirect symbol table.
    bare = name.startswith("classic")
    found = {(one.vaddr, one.name) for one in image.binds()}
    expected = {(row.slot, row.symbol) for row in wanted.rows if not (bare and row.is_slot)}
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_the_indirect_symbol_table_agrees_with_the_code(name: str) -> None:
    image = opened(made(name).data)
    slots = {slot.vaddr: slot for slot in image.slots}
    checked = 0
    for stub in image.stubs:
        if stub.kind != model.OBJC_STUB and stub.slot in slots:
            assert image.stub_symbol(stub.vaddr) == slots[stub.slot].symbol
            checked += 1
    assert checked == sum(row.stub is not None for row in made(name).rows)


@pytest.mark.parametrize("name", [name for name in NAMES if made(name).selectors])
def test_selectors(name: str) -> None:
    wanted = made(name)
    image = opened(wanted.data)
    found = {stub.vaddr: stub for stub in image.stubs if stub.kind == model.OBJC_STUB}
    assert {vaddr: stub.selector for vaddr, stub in found.items()} == wanted.selectors
    [send] = [slot for slot in image.slots if slot.symbol == "_objc_msgSend"]
    assert {stub.slot for stub in found.values()} == {send.vaddr}
    assert set(found.values()) <= set(send.stubs)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("info", "classic"))])
def test_helpers(name: str) -> None:
    wanted = made(name)
    image = opened(wanted.data)
    for row in wanted.rows:
        if row.helper is None or wanted.arch.startswith("ppc"):
            continue
        helper = image.decoded.helper(row.helper)
        assert helper is not None
        assert row.argument in {helper.offset, helper.slot}


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_a_helper_with_the_wrong_offset(arch: str) -> None:
    wanted = shapes.dyld_info(arch, lazy_offset=0)
    image = opened(wanted.data)
    lazy = [slot for slot in image.slots if slot.resolver_argument is not None]
    assert len(lazy) > 5
    for slot in lazy:
        helper = image.decoded.helper(slot.helper or 0)
        assert helper is not None
        assert helper.offset == 0
        [row] = [row for row in wanted.rows if row.slot == slot.vaddr]
        assert slot.resolver_argument == row.argument


def test_an_unused_entry_of_a_jump_table_is_nothing() -> None:
    wanted = made("classic-i386-jump-dylib")
    image = opened(wanted.data)
    [empty] = wanted.stubs_without_slot
    assert empty not in {slot.vaddr for slot in image.slots}
    assert image.stubs_without_slot == ()


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str) -> None:
    assert opened(shapes.dyld_info("x86_64", kind=KINDS[kind]).data).kind == kind


# ---- several images in one file ----

MANY = (
    "classic-ppc-pic-dylib",
    "classic-ppc64-stub1-dylib",
    "info-i386-dylib",
    "info-x86_64-dylib",
)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_fat(count: int, wide: bool) -> None:
    inside = [made(name) for name in MANY[:count]]
    data = writer.fat([(one.arch, one.data) for one in inside], wide=wide)
    assert_images(data, slices(BufferSource(data)), inside)


def test_arm64_and_arm64e_hidden_in_another_file() -> None:
    inside = [made("chained-arm64-6-1"), made("chained-arm64e-9-3")]
    fat = writer.fat([(one.arch, one.data) for one in inside], align=14)
    java = b"\xca\xfe\xba\xbe\0\0\0\x34"  # a class file begins so: version 52
    lone = made("info-x86_64-dylib")
    data = b"\x7fELF" + bytes(7001) + java + bytes(93) + fat + b"\xfe\xed\xfa\xcf" + lone.data
    assert_images(data, embedded(BufferSource(data)), [*inside, lone])


def test_archive() -> None:
    inside = [made("info-arm64-dylib"), made("chained-x86_64-2-2")]
    data = writer.archive(
        [("one.o", inside[0].data), ("table", b"no image"), ("a longer name.o", inside[1].data)]
    )
    found = slices(BufferSource(data))
    assert [one.member for one in found] == ["one.o", "a longer name.o"]
    assert_images(data, found, inside)


def assert_images(data: bytes, found: list[Slice], inside: list[shapes.Made]) -> None:
    """Compare the slots of several images, their offsets counted from the file's start."""
    assert [part.arch for part in found] == [one.arch for one in inside]
    for part, one in zip(found, inside, strict=True):
        image = MachoMap(BufferSource(data), part)
        assert data[part.offset : part.offset + len(one.data)] == one.data
        rows = sorted(
            (row.slot, part.offset + row.offset, row.symbol) for row in one.rows if row.is_slot
        )
        assert [(slot.vaddr, slot.offset, slot.symbol) for slot in image.slots] == rows
        assert image.partial == ()
