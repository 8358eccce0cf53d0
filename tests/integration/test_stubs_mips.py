# SPDX-License-Identifier: Apache-2.0
"""MIPS: the words of the GOT that no relocation names, stubs, and the PLT of fixed programs.

readelf says what the GOT has, Unicorn runs every stub.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from soscope.errors import SoscopeError
from soscope.inspect.check.check import check_elf
from soscope.inspect.check.emulate import argument_of
from soscope.model import filemap as words
from tests.support.files.elffiles import run
from tests.support.files.stubs import (
    LIBRARY,
    PROGRAM,
    assembled,
    compiled,
    differences,
    joined,
    linked,
    opened,
    program,
    without_sections,
)
from tests.support.targets.build import made_in

_ARCHES = {"mips": ("mips", 32), "mipsel": ("mips", 32)}
_ARCHES |= {"mips64": ("mips64", 64), "mips64el": ("mips64", 64)}
_MICRO = "-mmicromips"
_CALLED = {"puts", "malloc", "free", "atoi"}
# a word of the GOT: address, what it holds in the file, the symbol's value, type and name
_WORD = re.compile(
    r"^ +([0-9a-f]{8,16}) +-?\d+\(gp\) ([0-9a-f]+) ([0-9a-f]+) (\w+) +(\w+) (\S+)$", re.MULTILINE
)
_PLT_WORD = re.compile(
    r"^ +([0-9a-f]{8,16}) ([0-9a-f]+) ([0-9a-f]+) (\w+) +(\w+) (\S+)$", re.MULTILINE
)


def _words(path: Path, form: re.Pattern[str]) -> dict[int, tuple[str, int]]:
    """Return the words that readelf says have symbols: address -> (symbol, what it holds)."""
    text = run("readelf", "-AW", path)
    return {int(row[0], 16): (row[5], int(row[1], 16)) for row in form.findall(text)}


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", _ARCHES)
@pytest.mark.parametrize("by", ["bfd", "lld"])
def test_every_word_of_the_got_that_has_a_symbol(tmp_path: Path, arch: str, by: str) -> None:
    path = program(tmp_path, arch, by, "-pie", "-z", "lazy")
    listed = _words(path, _WORD)
    with opened(path) as mapped:
        assert (mapped.arch, mapped.bits) == _ARCHES[arch]
        assert mapped.partial == []
        assert {one.vaddr: one.symbol for one in mapped.slots} == {
            vaddr: name for vaddr, (name, _) in listed.items()
        }
        assert {one.symbol for one in mapped.slots} >= _CALLED | {"abs", "toupper"}
        assert all(one.kind == "DT_MIPS_GOTSYM" for one in mapped.slots)
        lazy = [one for one in mapped.slots if one.binding == words.LAZY]
        if by == "bfd":
            assert {one.symbol for one in lazy} == _CALLED
        else:  # LLD makes no stubs: all is bound at once
            assert lazy == []
        for one in lazy:
            (stub,) = one.stubs
            assert argument_of(mapped, one) == one.resolver_argument
            assert (stub.kind, stub.section) == (words.MIPS_STUB, ".MIPS.stubs")
            assert one.helper == stub.vaddr == listed[one.vaddr][1]
        assert not [one for one in mapped.slots if one.stubs and one not in lazy]
        assert differences(mapped) == []
        assert list(check_elf(mapped)) == []
        with opened(without_sections(path)) as bare:
            assert joined(bare) == joined(mapped)


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", _ARCHES)
def test_bound_at_once(tmp_path: Path, arch: str) -> None:
    unit = compiled(tmp_path, arch, PROGRAM, "-fPIC")
    path = linked(tmp_path, arch, "bfd", [unit], "-shared", "-z", "now")
    with opened(path) as mapped:
        assert {one.binding for one in mapped.slots} == {words.NOW}
        assert not [one for one in mapped.slots if one.helper or one.resolver_argument]
        assert {one.symbol for one in mapped.slots if one.stubs} == _CALLED
        assert differences(mapped) == []


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["mips", "mipsel"])
@pytest.mark.parametrize("by", ["bfd", "lld"])
def test_the_plt_of_a_program_at_a_fixed_address(tmp_path: Path, arch: str, by: str) -> None:
    path = program(tmp_path, arch, by, "-no-pie", "-z", "lazy", compiling=("-fno-pic",))
    listed = _words(path, _PLT_WORD)
    with opened(path) as mapped:
        called = [one for one in mapped.slots if one.kind == "R_MIPS_JUMP_SLOT"]
        assert {one.symbol for one in called} >= _CALLED
        assert {one.vaddr: (one.symbol, one.helper) for one in called} == listed
        # what glibc gives _dl_fixup: the offset of the relocation
        offsets = [8 * index for index in range(len(called))]
        assert [one.resolver_argument for one in called] == offsets
        assert [argument_of(mapped, one) for one in called] == offsets
        assert {stub.kind for one in called for stub in one.stubs} == {words.PLT}
        assert all(len(one.stubs) == 1 for one in called)
        assert differences(mapped) == []
        assert list(check_elf(mapped)) == []
        with opened(without_sections(path)) as bare:
            assert joined(bare) == joined(mapped)


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["mips", "mipsel"])
@pytest.mark.parametrize("flags", [(), ("--insn32",)])
def test_micromips(tmp_path: Path, arch: str, flags: tuple[str, ...]) -> None:
    library = compiled(tmp_path, arch, LIBRARY, "-fPIC", _MICRO, name="lib")
    shared = linked(tmp_path, arch, "bfd", [library], "-shared", name="lib.so")
    unit = compiled(tmp_path, arch, PROGRAM, "-fPIC", _MICRO)
    path = linked(tmp_path, arch, "bfd", [unit], "-shared", "-z", "lazy", *flags)
    with opened(path) as mapped:
        lazy = [one for one in mapped.slots if one.binding == words.LAZY]
        assert {one.symbol for one in lazy} == _CALLED
        for one in lazy:  # the first bit says how the code is encoded
            assert [stub.vaddr | 1 for stub in one.stubs] == [one.helper]
            assert argument_of(mapped, one) == one.resolver_argument
        assert {stub.size for one in lazy for stub in one.stubs} == {16 if flags else 12}
        assert list(check_elf(mapped)) == []
        with opened(without_sections(path)) as bare:
            assert joined(bare) == joined(mapped)
    unit = compiled(tmp_path, arch, PROGRAM, "-fno-pic", _MICRO)
    path = linked(tmp_path, arch, "bfd", [unit, shared], "-no-pie", "-e", "main", *flags)
    assert_entries(path, _CALLED)


@pytest.mark.parametrize(("arch", "order"), [("mips", "-EB"), ("mipsel", "-EL")])
def test_mips16(tmp_path: Path, arch: str, order: str) -> None:
    text = "\t.abicalls\n\t.option pic0\n\t.set mips16\n\t.globl main\n\t.ent main\nmain:\n"
    text += "\tjal abs\n\tnop\n\tjal puts\n\tnop\n\tjr $31\n\tnop\n\t.end main\n"
    (tmp_path / "short.s").write_text(text)
    unit = tmp_path / "short.o"
    flags = (order, "-mips32r2", "-call_nonpic")
    made_in(tmp_path, "mips-linux-gnu-as", *flags, "-o", unit, "short.s")
    library = compiled(tmp_path, arch, LIBRARY, "-fPIC", name="lib")
    shared = linked(tmp_path, arch, "bfd", [library], "-shared", name="lib.so")
    path = linked(tmp_path, arch, "bfd", [unit, shared], "-no-pie", "-e", "main")
    assert_entries(path, {"abs", "puts"})


def assert_entries(path: Path, called: set[str]) -> None:
    """Compare the entries of a PLT that nobody can run with objdump's names."""
    names = _named_by_objdump(path)
    with opened(path) as mapped:
        ours = {stub.vaddr: slot.symbol for slot in mapped.slots for stub in slot.stubs}
        assert ours == names
        assert set(names.values()) >= called
        assert list(check_elf(mapped)) == []
        with opened(without_sections(path)) as bare:
            assert joined(bare) == joined(mapped)
        with pytest.raises(SoscopeError) as caught:
            differences(mapped)
        assert caught.value.slug == "no-emulator"


def _named_by_objdump(path: Path) -> dict[int, str]:
    """Return what objdump calls the entries of the PLT: foo@plt, foo@mips16plt, …."""
    text = run("mips-linux-gnu-objdump", "-d", "-j", ".plt", path)
    rows = re.findall(r"^([0-9a-f]+) <(\w+)@\w*plt>:$", text, re.MULTILINE)
    return {int(row[0], 16): row[1] for row in rows}


def test_a_symbol_with_a_large_index(tmp_path: Path) -> None:
    count = 0x10000
    text = "\n".join(f".globl d{number}\nd{number} = {number}" for number in range(count))
    unit = assembled(tmp_path, "mips", text, name="many")
    calls = compiled(tmp_path, "mips", PROGRAM, "-fPIC")
    path = linked(tmp_path, "mips", "bfd", [unit, calls], "-shared", "-z", "lazy")
    with opened(path) as mapped:
        lazy = [one for one in mapped.slots if one.binding == words.LAZY]
        assert {one.symbol for one in lazy} == _CALLED
        assert min(one.resolver_argument or 0 for one in lazy) > count
        assert all(len(one.stubs) == 1 and one.stubs[0].size == 20 for one in lazy)
        assert differences(mapped) == []


def test_more_than_one_got(tmp_path: Path) -> None:
    """What the first GOT has no room for is in others, filled by R_MIPS_REL32."""
    units = []
    for unit in range(3):
        names = [f"far{unit}_{number}" for number in range(6000)]
        text = ".abicalls\n.text\n" + "\n".join(f"lw $2, %call16({one})($28)" for one in names)
        units.append(assembled(tmp_path, "mips", text, name=f"unit{unit}"))
    path = linked(tmp_path, "mips", "bfd", units, "-shared", "-z", "lazy")
    text = run("readelf", "-rW", path)
    filled = {
        int(row[0], 16): row[1]
        for row in re.findall(r"(?m)^([0-9a-f]+) +\w+ +R_MIPS_REL32 +[0-9a-f]+ +(\w+)", text)
    }
    assert len(filled) == 6000
    with opened(path) as mapped:
        assert {
            one.vaddr: one.symbol for one in mapped.slots if one.kind == "R_MIPS_REL32"
        } == filled
        assert {one.symbol for one in mapped.slots} == {
            f"far{unit}_{number}" for unit in range(3) for number in range(6000)
        }
    with opened(without_sections(path)) as bare:
        assert [one.kind for one in bare.slots if one.kind == "R_MIPS_REL32"] == []
        assert len(bare.partial) == 1
        assert "not told from other data" in bare.partial[0]


def test_pointers_in_data_are_no_slots(tmp_path: Path) -> None:
    text = "extern int abs(int); int (*pointer)(int) = abs; int f(int x) { return abs(x); }"
    for arch in ("mips", "mips64el"):
        unit = compiled(tmp_path, arch, text, "-fPIC")
        path = linked(tmp_path, arch, "bfd", [unit], "-shared", "-z", "lazy")
        assert "R_MIPS_REL32" in run("readelf", "-rW", path)
        with opened(path) as mapped:
            assert {one.symbol: one.kind for one in mapped.slots}["abs"] == "DT_MIPS_GOTSYM"
            assert not [one for one in mapped.slots if one.kind != "DT_MIPS_GOTSYM"]


def test_a_stub_that_gives_the_index_of_another(tmp_path: Path) -> None:
    path = program(tmp_path, "mips", "bfd", "-pie", "-z", "lazy")
    with opened(path) as mapped:
        one, other = [slot for slot in mapped.slots if slot.binding == words.LAZY][:2]
        at = mapped.image.locate(one.stubs[0].vaddr)
    data = bytearray(path.read_bytes())
    struct.pack_into(">H", data, at + 14, other.resolver_argument)  # li $t8, index
    path.write_bytes(data)
    with opened(path) as mapped:
        (fault,) = check_elf(mapped)
        assert (fault.slug, fault.symbol) == ("wrong-argument", one.symbol)
        assert other.symbol in fault.message
        slots = {slot.symbol: slot for slot in mapped.slots}
        assert slots[one.symbol].stubs == ()
        assert len(slots[other.symbol].stubs) == 2


def test_a_got_that_ends_with_the_file(tmp_path: Path) -> None:
    path = program(tmp_path, "mips64el", "bfd", "-pie", "-z", "lazy")
    data = bytearray(path.read_bytes())
    with opened(path) as mapped:
        at = next(
            place
            for place in range(0, len(data) - 16, 8)
            if struct.unpack_from("<QQ", data, place)[0] == 0x70000011  # DT_MIPS_SYMTABNO
        )
        count = len(mapped.slots)
    struct.pack_into("<Q", data, at + 8, 1 << 40)
    path.write_bytes(data)
    with opened(path) as mapped:
        assert len(mapped.slots) >= count
        assert any("DT_MIPS_SYMTABNO" in why for why in mapped.partial)
