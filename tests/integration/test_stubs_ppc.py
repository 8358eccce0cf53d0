# SPDX-License-Identifier: Apache-2.0
"""32-bit PowerPC: stubs of fixed and of position-independent code, and the BSS PLT.

GNU ld and LLD say in the symbol table which function each of their stubs is for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.check.check import check_elf
from soscope.inspect.check.emulate import argument_of
from soscope.model import filemap as words
from tests.support.files import damage
from tests.support.files.stubs import (
    PROGRAM,
    assembled,
    compiled,
    differences,
    joined,
    linked,
    named_by_linker,
    named_by_objdump,
    opened,
    program,
    without_sections,
)

_CALLED = {"puts", "malloc", "free", "atoi", "abs"}
_SECURE = "-msecure-plt"
_FRAMES = "-fasynchronous-unwind-tables"
_OBJDUMP = "powerpc64-linux-gnu-objdump"

# as gcc compiles with -fPIC: each unit has a table of its own, and %r30 leads to it
_UNIT = """
	.section .got2,"aw"
.Ltable = .+32768
	.fill {words}, 4, 0
	.text
	.globl {name}
	.type {name}, @function
{name}:	{cfi}_startproc
	stwu 1, -16(1)
	mflr 0
	bcl 20, 31, .Lhere
.Lhere:	stw 30, 8(1)
	stw 0, 20(1)
	mflr 30
	addis 30, 30, .Ltable-.Lhere@ha
	nop
	addi 30, 30, .Ltable-.Lhere@l
{calls}
	lwz 0, 20(1)
	lwz 30, 8(1)
	mtlr 0
	addi 1, 1, 16
	blr
	{cfi}_endproc
"""


def _units(folder: Path, *, has_frames: bool = True) -> list[Path]:
    """Return three units: they call the same functions, and have tables of a word, two and 30."""
    wanted = {"first": ("abs", "far"), "second": ("abs", "atoi", "puts"), "third": ("far", "atoi")}
    return [
        assembled(
            folder,
            "ppc",
            _UNIT.format(
                words=size,
                name=name,
                cfi=".cfi" if has_frames else "# cfi",
                calls="\n".join(f"\tbl {one}+32768@plt" for one in calls),
            ),
            name=name,
        )
        for (name, calls), size in zip(wanted.items(), (1, 2, 30), strict=True)
    ]


def _named(mapped: ElfMap) -> dict[int, str]:
    return {stub.vaddr: slot.symbol for slot in mapped.slots for stub in slot.stubs}


@pytest.mark.covering(1)
@pytest.mark.parametrize("by", ["bfd", "lld"])
@pytest.mark.parametrize("mode", ["lazy", "now"])
def test_small_position_independent_code(tmp_path: Path, by: str, mode: str) -> None:
    flags = ("-pie", "-z", mode, "--eh-frame-hdr")
    path = program(tmp_path, "ppc", by, *flags, compiling=("-fpic", _SECURE, _FRAMES))
    with opened(path) as mapped:
        assert (mapped.arch, mapped.endian, mapped.partial) == ("ppc", "big", [])
        assert {one.symbol for one in mapped.slots if one.stubs} == _CALLED
        assert _named(mapped) == named_by_linker(path)
        calls = [one for one in mapped.slots if one.kind == "R_PPC_JMP_SLOT"]
        assert {one.binding for one in calls} == {words.LAZY if mode == "lazy" else words.NOW}
        if mode == "lazy":  # 12 bytes a relocation
            assert [one.resolver_argument for one in calls] == [
                12 * place for place in range(len(calls))
            ]
            assert None not in {one.helper for one in calls}
            assert [argument_of(mapped, one) for one in calls] == [
                one.resolver_argument for one in calls
            ]
        assert {stub.kind for one in calls for stub in one.stubs} == {words.CALL_STUB}
        assert differences(mapped) == []
        assert list(check_elf(mapped)) == []
        with opened(without_sections(path)) as bare:
            assert joined(bare, "ADDR32") == joined(mapped, "ADDR32")


@pytest.mark.parametrize("by", ["bfd", "lld"])
def test_a_program_at_a_fixed_address(tmp_path: Path, by: str) -> None:
    # LLD 14 leaves .got out there, and what its lazy slots lead to reads from it
    flags = ("-no-pie", "-z", "lazy" if by == "bfd" else "now", "--secure-plt")
    path = program(tmp_path, "ppc", by, *flags, compiling=("-fno-pic", _SECURE))
    with opened(path) as mapped:
        assert {one.symbol for one in mapped.slots if one.stubs} >= _CALLED
        if by == "bfd":
            assert named_by_objdump(path, _OBJDUMP) == _named(mapped)
        assert differences(mapped) == []
        assert list(check_elf(mapped)) == []
        with opened(without_sections(path)) as bare:
            assert joined(bare, "ADDR32") == joined(mapped, "ADDR32")


@pytest.mark.parametrize("by", ["bfd", "lld"])
def test_the_same_bytes_mean_another_slot_in_another_unit(tmp_path: Path, by: str) -> None:
    units = _units(tmp_path)
    path = linked(tmp_path, "ppc", by, units, "-shared", "-z", "lazy", "--eh-frame-hdr")
    with opened(path) as mapped:
        assert mapped.partial == []
        assert {one.symbol: len(one.stubs) for one in mapped.slots if one.stubs} == {
            "abs": 2,
            "far": 2,
            "atoi": 2,
            "puts": 1,
        }
        assert mapped.stubs_without_slot == ()
        names = named_by_linker(path)
        # GNU ld names the first stub of a function; the others follow
        assert {vaddr: _named(mapped)[vaddr] for vaddr in names} == names
        if by == "lld":
            assert len(names) == 7
        else:
            order = [_named(mapped)[vaddr] for vaddr in sorted(_named(mapped))]
            assert sorted(set(order), key=order.index) == [names[at] for at in sorted(names)]
        assert differences(mapped) == []
        with opened(without_sections(path)) as bare:
            assert joined(bare, "ADDR32") == joined(mapped, "ADDR32")


def test_the_order_tells_where_callers_do_not(tmp_path: Path) -> None:
    """Nothing says where functions begin; GNU ld's stubs lie in the order of their slots."""
    units = _units(tmp_path, has_frames=False)
    path = linked(tmp_path, "ppc", "bfd", units, "-shared", "-z", "lazy")
    with opened(path) as mapped:
        names = named_by_linker(path)
        ours = _named(mapped)
        assert {vaddr: names.get(vaddr, name) for vaddr, name in ours.items()} == ours
        assert len(ours) >= 4
        assert len(ours) + len(mapped.stubs_without_slot) == 7
        assert bool(mapped.partial) == bool(mapped.stubs_without_slot)


def test_a_stub_whose_callers_do_not_tell_has_no_slot(tmp_path: Path) -> None:
    units = _units(tmp_path, has_frames=False)
    path = linked(tmp_path, "ppc", "lld", units, "-shared", "-z", "lazy")
    with opened(path) as mapped:
        assert len(mapped.stubs_without_slot) == 7
        assert not [one for one in mapped.slots if one.stubs]
        assert len(mapped.partial) == 1
        assert "callers' %r30" in mapped.partial[0]
        # that is no fault of the file
        assert "stub-without-slot" not in {one.slug for one in check_elf(mapped)}


def test_a_tail_call_through_a_table_is_no_stub(tmp_path: Path) -> None:
    text = (
        "\t.globl f\nf:\t.cfi_startproc\n\tlwz 11, 8(30)\n\tmtctr 11\n\tbctr\n\tnop\n"
        "\t.cfi_endproc\n"
    )
    unit = assembled(tmp_path, "ppc", text, name="tail")
    other = compiled(tmp_path, "ppc", PROGRAM, "-fpic", _SECURE)
    path = linked(tmp_path, "ppc", "bfd", [unit, other], "-shared", "-z", "lazy")
    with opened(path) as mapped:
        assert _named(mapped) == named_by_linker(path)
        assert mapped.stubs_without_slot == ()


def test_thread_local_blocks_that_are_there_need_no_call(tmp_path: Path) -> None:
    text = "extern __thread int far; int f(void) { return far; }"
    unit = compiled(tmp_path, "ppc", text, "-fpic", _SECURE)
    names = compiled(tmp_path, "ppc", "void __tls_get_addr_opt(void) {}", name="opt")
    library = linked(tmp_path, "ppc", "bfd", [names], "-shared", name="opt.so")
    path = linked(tmp_path, "ppc", "bfd", [unit, library], "-shared", "-z", "lazy")
    with opened(path) as mapped:
        (slot,) = [one for one in mapped.slots if one.symbol == "__tls_get_addr_opt"]
        assert {stub.vaddr: slot.symbol for stub in slot.stubs} == named_by_linker(path)
        assert slot.stubs[0].size == 48


@pytest.mark.parametrize("kind", ["-pie", "-no-pie"])
def test_where_the_slot_is_the_stub(tmp_path: Path, kind: str) -> None:
    compiling = ("-fpic",) if kind == "-pie" else ("-fno-pic",)
    flags = (kind, "-z", "lazy", "--bss-plt", "--no-warn-rwx-segments")
    path = program(tmp_path, "ppc", "bfd", *flags, compiling=compiling)
    with opened(path) as mapped:
        calls = [one for one in mapped.slots if one.kind == "R_PPC_JMP_SLOT"]
        assert {one.symbol for one in calls} >= _CALLED
        for one in calls:
            (stub,) = one.stubs
            assert (stub.vaddr, stub.section, stub.kind) == (one.vaddr, ".plt", words.PLT)
            assert (one.offset, one.helper, one.binding) == (None, None, words.LAZY)
        assert mapped.stubs_without_slot == ()
        assert list(check_elf(mapped)) == []
        with opened(without_sections(path)) as bare:
            assert joined(bare, "ADDR32") == joined(mapped, "ADDR32")


def test_damaged_copies(tmp_path: Path) -> None:
    """Neither a crash nor more time or memory than they may have: what is not there is said."""
    files = []
    for arch, flags in (
        ("ppc", ("-fpic", _SECURE, _FRAMES)),
        ("ppc64", ("-fPIC",)),
        ("ppc64le", ("-fPIC",)),
        ("mips", ("-fPIC",)),
        ("mips64el", ("-fPIC",)),
    ):
        (tmp_path / arch).mkdir()
        files.append(program(tmp_path / arch, arch, "bfd", "-pie", "-z", "lazy", compiling=flags))
    said = damage.check("tests.support.truth.readers:elf_map", files, 100)
    assert said.total() == 100
    assert said["partial"] > 10
