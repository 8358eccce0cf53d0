# SPDX-License-Identifier: Apache-2.0
"""Whole images, small enough to say what each of their bytes means."""

from __future__ import annotations

from struct import pack

import pytest

from soscope.binfmt.macho import fixups as ordinals
from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.filemap import LAZY_SLOT, disagreements
from soscope.model import arch as machines
from soscope.model.filemap import (
    AUTH_STUB,
    JUMP_TABLE,
    LAZY,
    NOW,
    OBJC_STUB,
    PIC_STUB,
    PRELINKED,
    WEAK,
    Signed,
)
from tests.support.macho.machosmall import BASE, CODE, DATA, LIBRARY, LINKEDIT, Small, opened

HELPERS = CODE + 0x100
STUB_FLAGS = c.S_SYMBOL_STUBS | c.S_ATTR_PURE_INSTRUCTIONS
LAZY_CELLS = c.S_LAZY_SYMBOL_POINTERS
CELLS = c.S_NON_LAZY_SYMBOL_POINTERS


def bound(name: str, offset: int, *, library: int = 1) -> bytes:
    """A record: library, name, segment 0 + offset, bind, done."""
    place = bytes((offset & 0x7F | 0x80, offset >> 7 & 0x7F | 0x80, offset >> 14))
    head = bytes((0x10 | library,)) if library >= 0 else bytes((0x30 | library & 0xF,))
    return head + b"\x40" + name.encode() + b"\0\x51\x70" + place + b"\x90\0"


def lazy_image() -> Small:
    """x86_64: two stubs, two lazy slots, two helpers behind what they share."""
    image = Small(machines.CPU_X86_64)
    stubs = b"".join(
        b"\xff\x25" + pack("<i", DATA + 8 * index - (CODE + 6 * index + 6)) for index in (0, 1)
    )
    shared = bytes.fromhex("4c8d1d001000004153ff250010000090")
    helpers = shared
    for index, argument in enumerate((0, len(bound("_puts", 0x1000)))):
        at = HELPERS + 16 + 10 * index
        helpers += b"\x68" + pack("<I", argument) + b"\xe9" + pack("<i", HELPERS - at - 10)
    image.section("__TEXT,__stubs", CODE, stubs, STUB_FLAGS, 0, 6)
    image.section("__TEXT,__stub_helper", HELPERS, helpers, c.S_ATTR_PURE_INSTRUCTIONS)
    image.section(
        "__DATA,__la_symbol_ptr", DATA, pack("<2Q", HELPERS + 16, HELPERS + 26), LAZY_CELLS, 2
    )
    image.indirect = [image.symbol("_puts"), image.symbol("_free", desc=0xFE00)] * 2
    image.dyld_info(lazy=bound("_puts", 0x1000) + bound("_free", 0x1008, library=-2))
    return image


def test_lazy_slots_have_stub_helper_and_record() -> None:
    found = lazy_image().open()
    puts, free = found.slots
    assert (puts.symbol, puts.library, puts.binding) == ("_puts", LIBRARY, LAZY)
    assert (puts.vaddr, puts.offset, puts.section) == (DATA, 0x1000, "__DATA,__la_symbol_ptr")
    assert puts.helper == HELPERS + 16
    assert (puts.resolver_argument, free.resolver_argument) == (0, len(bound("_puts", 0x1000)))
    assert [stub.vaddr for stub in free.stubs] == [CODE + 6]
    assert (free.symbol, free.library) == ("_free", "")
    assert found.why_no_library(free) == ordinals.REASONS[ordinals.FLAT_LOOKUP]
    assert not found.why_no_library(puts)
    assert found.partial == ()
    assert found.stub_symbol(CODE + 6) == "_free"


def test_a_weak_record_wins_over_a_lazy_one_and_leaves_it_its_library() -> None:
    image = lazy_image()
    image.commands.pop()
    weak = b"\x40_puts\0\x51\x70\x80\x20\x90\0"
    image.dyld_info(weak=weak, lazy=bound("_puts", 0x1000) + bound("_free", 0x1008))
    found = image.open()
    puts, free = found.slots
    assert (puts.binding, puts.library, free.binding) == (WEAK, LIBRARY, LAZY)
    cell = found.cell(DATA)
    assert cell is not None
    assert [one.kind for one in cell.records] == ["weak-bind", "lazy-bind"]


def test_bind_opcodes_move_on_as_they_say() -> None:
    image = Small(machines.CPU_ARM64)
    image.section("__DATA,__got", DATA, bytes(8 * 40), CELLS, 1000)
    image.dyld_info(
        bind=b"\x20\x01\x40_a\0\x51\x70\x80\x20\x90"  # 0
        b"\x40_b\0\xa0\x08"  # 8, then 16 further
        b"\x41_c\0\xb2"  # 24, then 3 pointers further
        b"\x60\x7f\x40_d\0\xc0\x03\x08"  # 48, 64, 80
        b"\x80\x88\x02\x40_e\0\x90"  # 96 + 264
        b"\x80\xf8\xff\xff\xff\xff\xff\xff\xff\xff\x01\x40_f\0\x90"  # 360 + 8 - 8
    )
    found = {one.vaddr - DATA: (one.name, one.addend) for one in image.open().binds()}
    assert found == {
        0: ("_a", 0),
        8: ("_b", 0),
        24: ("_c", 0),
        48: ("_d", -1),
        64: ("_d", -1),
        80: ("_d", -1),
        360: ("_f", -1),
    }
    weak = {one.name: one.weak_import for one in image.open().binds()}
    assert weak["_c"]
    assert not weak["_b"]
    assert [slot.vaddr - DATA for slot in image.open().slots] == [0, 8, 24, 48, 64, 80]


# ---- chained fixups ----


def fixups(
    form: int,
    starts: list[int],
    imports: list[tuple[int, int, str]],
    kind: int = 1,
    pages: int = 2,
) -> bytes:
    """LC_DYLD_CHAINED_FIXUPS: one segment with pages of 4 KiB; (ordinal, addend, name) each."""
    table = pack("<II", 1, 8)
    table += pack("<IHHQIH", 22 + 2 * len(starts), 0x1000, form, 0, 0, pages)
    table += pack(f"<{len(starts)}H", *starts)
    table += bytes(-len(table) % 8)
    names = b"\0"
    rows = b""
    for ordinal, addend, name in imports:
        at = len(names)
        names += name.encode() + b"\0"
        if kind == 3:
            rows += pack("<Qq", ordinal & 0xFFFF | at << 32, addend)
        else:
            rows += pack("<I", ordinal & 0xFF | at << 9)
            rows += pack("<i", addend) if kind == 2 else b""
    head = 32
    at = head + len(table)
    return pack("<7I4x", 0, head, at, at + len(rows), len(imports), kind, 0) + table + rows + names


def pointer(form: int, ordinal: int, following: int, addend: int = 0) -> bytes:
    """A bind without a signature; `following` is in bytes."""
    if form == 3:
        return pack("<I", 1 << 31 | following // 4 << 26 | addend << 20 | ordinal)
    if form in (2, 6):
        return pack("<Q", 1 << 63 | following // 4 << 51 | addend << 24 | ordinal)
    stride = 4 if form in (7, 10) else 8
    return pack("<Q", 1 << 62 | following // stride << 51 | (addend & 0x7FFFF) << 32 | ordinal)


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("form", [1, 2, 3, 6, 7, 9, 10, 12])
def test_chains_are_followed_in_all_formats(form: int, kind: int) -> None:
    bits = 32 if form == 3 else 64
    size = bits // 8
    image = Small(machines.CPU_ARM if form == 3 else machines.CPU_ARM64, bits=bits)
    cells = pointer(form, 1, size) + pointer(form, 0, 2 * size, 5) + bytes(size)
    cells += pointer(form, 2, 0)
    image.section("__DATA,__got", DATA, cells, CELLS, 1000)
    imports = [(1, 0, "_a"), (-2, 0, "_flat"), (-3, 7, "_weak")]
    image.chained(fixups(form, [0xFFFF, 0], imports, kind))
    found = image.open()
    assert [(one.vaddr, one.symbol, one.library, one.binding) for one in found.slots] == [
        (DATA, "_flat", "", NOW),
        (DATA + size, "_a", LIBRARY, NOW),
        (DATA + 3 * size, "_weak", "", WEAK),
    ]
    assert [one.addend for one in found.binds()] == [0, 5, 0 if kind == 1 else 7]
    assert found.partial == ()


def test_a_page_may_have_several_chains() -> None:
    image = Small(machines.CPU_ARM, bits=32)
    cells = pointer(3, 0, 4) + pointer(3, 0, 0) + bytes(0x3F8) + pointer(3, 1, 0)
    image.section("__DATA,__got", DATA, cells, CELLS, 1000)
    image.chained(fixups(3, [0xFFFF, 0x8002, 0x0000, 0x8400], [(1, 0, "_a"), (1, 0, "_b")]))
    assert [one.vaddr - DATA for one in image.open().slots] == [0, 4, 0x400]


@pytest.mark.parametrize("form", [1, 9, 12])
@pytest.mark.parametrize(("key", "name"), [(0, "IA"), (1, "IB"), (2, "DA"), (3, "DB")])
def test_signed_pointers_tell_how(form: int, key: int, name: str) -> None:
    image = Small(machines.CPU_ARM64, subtype=2)
    word = 3 << 62 | key << 49 | 1 << 48 | 0xBEEF << 32
    image.section("__DATA,__auth_got", DATA, pack("<Q", word), CELLS, 1000)
    image.chained(fixups(form, [0xFFFF, 0], [(1, 0, "_a")]))
    found = image.open()
    assert found.arch == "arm64e"
    assert found.slots[0].signed == Signed(name, 0xBEEF, address_diversity=True)


@pytest.mark.parametrize("form", [4, 5, 8, 11, 13])
def test_formats_without_binds_only_move(form: int) -> None:
    bits = 32 if form < 8 else 64
    image = Small(machines.CPU_ARM if form < 8 else machines.CPU_ARM64, bits=bits)
    image.section("__DATA,__got", DATA, pack("<I" if form < 8 else "<Q", 0x800), CELLS, 1000)
    image.chained(fixups(form, [0xFFFF, 0], []))
    found = image.open()
    cell = found.cell(DATA)
    assert cell is not None
    assert cell.target == (0x800 if form == 5 else BASE + 0x800)
    assert found.slots[0].defined_here
    assert list(found.binds()) == []


@pytest.mark.parametrize(
    ("form", "word", "target"),
    [
        (2, CODE, CODE),
        (6, 0x800, CODE),
        (1, CODE, CODE),
        (9, 0x800, CODE),
        (12, 1 << 63 | 0xBEEF << 32 | 0x800, CODE),
        (1, 1 << 63 | 0x800, CODE),
    ],
)
def test_selectors_are_found_through_chains(form: int, word: int, target: int) -> None:
    image = Small(machines.CPU_ARM64)
    stub = bytes.fromhex("010000d0210040f9100000b0100640f900021fd6")
    image.section("__TEXT,__objc_stubs", CODE + 0x80, stub, c.S_ATTR_PURE_INSTRUCTIONS)
    image.section("__TEXT,__objc_methname", CODE, b"do:It:\0", c.S_CSTRING_LITERALS)
    # The stub's page is 0x10000: x1 from the page 0x12000, x16 from 0x11008.
    image.section("__DATA,__got", DATA, bytes(8) + pointer(form, 0, 0), CELLS, 1000)
    image.size = 0x3000
    image.section("__DATA,__objc_selrefs", BASE + 0x2000, pack("<Q", word), c.S_LITERAL_POINTERS)
    image.chained(fixups(form, [0xFFFF, 8, 0], [(1, 0, "_objc_msgSend")], pages=3))
    found = image.open()
    assert found.slots[-1].symbol == "_objc_msgSend"
    (stub_found,) = found.slots[-1].stubs
    assert (stub_found.kind, stub_found.selector) == (OBJC_STUB, "do:It:")
    assert found.cells.pointer(BASE + 0x2000) == target


def test_threaded_binds_take_their_symbols_from_a_table() -> None:
    image = Small(machines.CPU_ARM64, subtype=2)
    words = [
        1 << 62 | 1 << 51 | 1,  # symbol 1, the next one is 8 bytes further
        2 << 51 | CODE,  # a rebase, 16 bytes
        0,
        3 << 62 | 2 << 49 | 0xAB << 32,  # symbol 0, signed
    ]
    image.section("__DATA,__got", DATA, pack("<4Q", *words), CELLS, 1000)
    image.dyld_info(
        bind=b"\xd0\x02\x11\x40_a\0\x51\x90\x3e\x40_b\0\x90\x70\x80\x20\xd1\0",
    )
    found = {one.vaddr - DATA: one for one in image.open().slots}
    assert (found[0].symbol, found[0].kind, found[0].library) == ("_b", "threaded-bind", "")
    assert found[8].kind == "rebase"
    assert (found[24].symbol, found[24].library) == ("_a", LIBRARY)
    assert found[24].signed == Signed("DA", 0xAB, address_diversity=False)


# ---- before LC_DYLD_INFO ----


def test_a_jump_table_is_stub_and_slot_in_one() -> None:
    image = Small(machines.CPU_I386, bits=32)
    flags = c.S_SYMBOL_STUBS | c.S_ATTR_SELF_MODIFYING_CODE
    image.section("__IMPORT,__jump_table", CODE, b"\xf4" * 15, flags, 0, 5)
    image.indirect = [image.symbol("_puts"), c.INDIRECT_SYMBOL_ABS, image.symbol("_free")]
    found = image.open()
    assert [(one.vaddr, one.symbol, one.binding) for one in found.slots] == [
        (CODE, "_puts", LAZY),
        (CODE + 10, "_free", LAZY),
    ]
    assert found.slots[0].stubs[0].kind == JUMP_TABLE
    # room that no symbol uses is no stub that leads nowhere
    assert found.stubs_without_slot == ()


def test_ppc_slots_lead_to_the_one_helper() -> None:
    image = Small(machines.CPU_PPC, bits=32, order=">")
    stub = pack(">4I", 0x3D600001, 0x858B1000, 0x7D8903A6, 0x4E800420)  # DATA in two halves
    image.section("__TEXT,__symbol_stub1", CODE, stub, STUB_FLAGS, 0, 16)
    image.section("__DATA,__la_symbol_ptr", DATA, pack(">I", HELPERS), LAZY_CELLS, 1)
    image.section("__DATA,__nl_symbol_ptr", DATA + 0x100, bytes(4), CELLS, 2)
    image.indirect = [image.symbol("_puts")] * 2 + [image.symbol("_environ", desc=0x100)]
    found = image.open()
    assert (found.arch, found.endian, found.bits) == ("ppc", "big", 32)
    puts, environ = found.slots
    assert (puts.symbol, puts.binding, puts.kind, puts.library) == (
        "_puts",
        LAZY,
        "indirect-symbol",
        LIBRARY,
    )
    assert (puts.helper, puts.resolver_argument) == (HELPERS, DATA)
    assert [one.vaddr for one in puts.stubs] == [CODE]
    assert (environ.symbol, environ.binding) == ("_environ", NOW)


def test_external_relocations_bind_data() -> None:
    for order, word in (("<", 1 | 2 << 25 | 1 << 27), (">", 1 << 8 | 2 << 5 | 1 << 4)):
        image = Small(machines.CPU_PPC if order == ">" else machines.CPU_I386, bits=32, order=order)
        image.symbol("_a")
        image.symbol("_b", desc=0xFF40)
        data = image.built()
        # extreloff and nextrel are the last but three words of LC_DYSYMTAB, the last command
        commands = int.from_bytes(data[20:24], "big" if order == ">" else "little")
        at = 28 + commands - 16
        data = data[:at] + pack(order + "II", LINKEDIT, 1) + data[at + 8 :]
        table = pack(order + "iI", 0x1000, word)
        data = data[:LINKEDIT] + table + data[LINKEDIT + 8 :]
        (one,) = opened(data).binds()
        assert (one.vaddr, one.name, one.kind) == (DATA, "_b", "external-relocation")
        assert one.ordinal == ordinals.MAIN_EXECUTABLE
        assert one.weak_import


def test_pic_stubs_are_called_that() -> None:
    image = Small(machines.CPU_I386, bits=32)
    code = bytes.fromhex("e800000000588b90fb070000ffe28d80fb07000050e9e60f0000")
    image.section("__TEXT,__picsymbol_stub", CODE, code, STUB_FLAGS, 0, 26)
    cell = pack("<I", CODE + 14)
    image.section("__DATA,__la_symbol_ptr", DATA, cell, LAZY_CELLS, 1)
    image.indirect = [image.symbol("_puts")] * 2
    (slot,) = image.open().slots
    assert slot.stubs[0].kind == PIC_STUB
    assert slot.helper == CODE + 14


def classic_image(*, helper_slot: int = DATA) -> Small:
    """x86_64 before LC_DYLD_INFO: the helper hands over the slot's address."""
    image = Small(machines.CPU_X86_64)
    stub = b"\xff\x25" + pack("<i", DATA - CODE - 6)
    helper = b"\x4c\x8d\x1d" + pack("<i", helper_slot - HELPERS - 7) + b"\xe9" + bytes(4)
    image.section("__TEXT,__symbol_stub1", CODE, stub, STUB_FLAGS, 0, 6)
    image.section("__TEXT,__stub_helper", HELPERS, helper, c.S_ATTR_PURE_INSTRUCTIONS)
    image.section("__DATA,__la_symbol_ptr", DATA, pack("<Q", HELPERS), LAZY_CELLS, 1)
    image.indirect = [image.symbol("_puts")] * 2
    return image


def test_the_resolver_of_old_images_is_given_the_slot() -> None:
    (slot,) = classic_image().open().slots
    assert (slot.binding, slot.kind, slot.library) == (LAZY, "indirect-symbol", LIBRARY)
    assert (slot.helper, slot.resolver_argument) == (HELPERS, DATA)
    assert disagreements(classic_image().open()) == []
    (one,) = disagreements(classic_image(helper_slot=DATA + 8).open())
    assert (one.what, one.offset, one.expected) == (LAZY_SLOT, DATA + 8, DATA)


@pytest.mark.parametrize(
    ("flags", "content", "binding", "why"),
    [
        (c.MH_TWOLEVEL | c.MH_BINDATLOAD, HELPERS, NOW, ""),
        (c.MH_TWOLEVEL | c.MH_PREBOUND, 0x90000000, PRELINKED, ""),
        (c.MH_TWOLEVEL | c.MH_PREBOUND, HELPERS, LAZY, ""),
        (0, HELPERS, LAZY, ordinals.NOT_TWO_LEVEL),
    ],
)
def test_the_flags_say_when_old_slots_are_bound(
    flags: int, content: int, binding: str, why: str
) -> None:
    image = classic_image()
    image.flags = flags
    image.sections.pop()
    image.section("__DATA,__la_symbol_ptr", DATA, pack("<Q", content), LAZY_CELLS, 1)
    found = image.open()
    (slot,) = found.slots
    assert slot.binding == binding
    assert found.why_no_library(slot) == why


def test_stubs_that_check_signatures_are_called_that() -> None:
    image = Small(machines.CPU_ARM64, subtype=2)
    # adrp x17, 0x11000; add x17, x17, #0; ldr x16, [x17]; braa x16, x17
    stub = bytes.fromhex("110000b031020091300240f9110a1fd7")
    image.section("__TEXT,__auth_stubs", CODE, stub, STUB_FLAGS, 0, 16)
    image.section("__DATA,__auth_got", DATA, pack("<Q", 3 << 62 | 1 << 48), CELLS, 1)
    image.indirect = [image.symbol("_puts")] * 2
    image.chained(fixups(9, [0xFFFF, 0], [(1, 0, "_puts")]))
    (slot,) = image.open().slots
    assert [one.kind for one in slot.stubs] == [AUTH_STUB]
    assert slot.signed == Signed("IA", 0, address_diversity=True)
    assert disagreements(image.open()) == []


def test_a_cell_of_the_image_itself_has_the_name_of_what_it_leads_to() -> None:
    image = Small(machines.CPU_X86_64)
    image.section("__DATA,__got", DATA, pack("<3Q", CODE, 0, CODE + 4), CELLS, 0)
    image.section("__TEXT,__text", CODE, bytes(8), c.S_ATTR_PURE_INSTRUCTIONS)
    image.symbol("_own", kind=0xF, section=2, desc=0, value=CODE)
    image.indirect = [c.INDIRECT_SYMBOL_LOCAL] * 3
    found = image.open()
    first, second = found.slots
    assert (first.symbol, first.kind, first.defined_here) == ("_own", "rebase", True)
    assert (second.vaddr, second.symbol) == (DATA + 16, "")
    assert found.why_no_library(first) == ordinals.DEFINED_HERE
    (own,) = found.symbols
    assert (own.name, own.type, own.vaddr) == ("_own", "function", CODE)


def test_asking_again_and_again_changes_nothing() -> None:
    found = lazy_image().open()
    before = (found.slots, found.symbols, found.stubs, found.stub_symbol(CODE))
    for _ in range(100_000 // 6):  # more than the file's length in names
        assert found.stub_symbol(CODE) == "_puts"
        assert found.symbols is before[1]
        assert found.stubs is before[2]
    assert disagreements(found) == []
    assert found.partial == ()


def test_the_header_is_told() -> None:
    image = Small(machines.CPU_ARM64)
    image.command(c.LC_UUID, bytes(range(16)))
    image.dylib("@rpath/libme.dylib", c.LC_ID_DYLIB)
    image.dylib("/usr/lib/libc++.1.dylib", c.LC_REEXPORT_DYLIB)
    image.dylib("@loader_path/weak.dylib", c.LC_LOAD_WEAK_DYLIB)
    found = image.open()
    assert (found.arch, found.bits, found.endian, found.kind) == ("arm64", 64, "little", "dylib")
    assert found.build_id == "000102030405060708090a0b0c0d0e0f"
    assert found.soname == "@rpath/libme.dylib"
    assert found.needed == (LIBRARY, "/usr/lib/libc++.1.dylib", "@loader_path/weak.dylib")
    assert found.reexported == ("/usr/lib/libc++.1.dylib",)
    assert found.partial == ()
