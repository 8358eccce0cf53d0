# SPDX-License-Identifier: Apache-2.0
"""64-bit PowerPC: call stubs of both ABIs, in all their forms, and where lazy slots lead at first.

GNU ld and LLD say in the symbol table which function each stub is for; objdump names the branches
that unbound slots lead to.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.check.check import check_elf
from soscope.inspect.check.emulate import argument_of
from soscope.model import filemap as words
from tests.support.files.elffiles import run
from tests.support.files.stubs import (
    PROGRAM,
    assembled,
    compiled,
    joined,
    linked,
    named_by_linker,
    named_by_objdump,
    opened,
    program,
    without_sections,
)
from tests.support.targets.build import made_in

_CALLED = {"puts", "malloc", "free", "atoi", "abs"}
_OBJDUMP = "powerpc64-linux-gnu-objdump"
_V2 = "-mabi=elfv2"
_P10 = "-mcpu=pwr10"
_CELLS = [
    ("ppc64", "bfd", ()),
    ("ppc64", "bfd", (_V2,)),
    ("ppc64", "gold", ()),
    ("ppc64", "lld", (_V2,)),
    ("ppc64le", "bfd", ()),
    ("ppc64le", "gold", ()),
    ("ppc64le", "lld", ()),
    ("ppc64le", "bfd", (_P10,)),
    ("ppc64le", "lld", (_P10,)),
]


def _named(mapped: ElfMap) -> dict[int, str]:
    return {stub.vaddr: slot.symbol for slot in mapped.slots for stub in slot.stubs}


@pytest.mark.covering(1)
@pytest.mark.parametrize(("arch", "by", "how"), _CELLS)
def test_every_stub_has_the_slot_of_its_function(
    tmp_path: Path, arch: str, by: str, how: tuple[str, ...]
) -> None:
    flags = ("-pie", "-z", "lazy")
    path = program(tmp_path, arch, by, *flags, compiling=("-fPIC", *how))
    with opened(path) as mapped:
        assert (mapped.arch, mapped.kind, mapped.partial) == (arch, "pie", [])
        assert {one.symbol for one in mapped.slots if one.stubs} == _CALLED
        assert _named(mapped) == named_by_linker(path)
        lazy = [one for one in mapped.slots if one.binding == words.LAZY]
        assert {one.symbol for one in lazy} >= _CALLED
        # what glibc gives _dl_fixup: the offset of the relocation
        offsets = [24 * index for index in range(len(lazy))]
        assert [one.resolver_argument for one in lazy] == offsets
        assert {stub.kind for one in lazy for stub in one.stubs} == {words.CALL_STUB}
        assert {(one.section, one.offset) for one in lazy} == {(".plt", None)}
        if by == "bfd":
            assert named_by_objdump(path, _OBJDUMP) == {one.helper: one.symbol for one in lazy}
        assert [argument_of(mapped, one) for one in lazy] == offsets
        assert mapped.stubs_without_slot == ()
        assert list(check_elf(mapped)) == []
        with opened(without_sections(path)) as bare:
            assert joined(bare, "ADDR64") == joined(mapped, "ADDR64")


def test_a_branch_that_gives_the_index_of_another(tmp_path: Path) -> None:
    path = program(tmp_path, "ppc64", "bfd", "-pie", "-z", "lazy")
    with opened(path) as mapped:
        one, other = [slot for slot in mapped.slots if slot.binding == words.LAZY][:2]
        assert one.helper is not None
        at = mapped.image.locate(one.helper)
    data = bytearray(path.read_bytes())
    index = (other.resolver_argument or 0) // 24
    struct.pack_into(">I", data, at, 0x38000000 | index)  # li %r0, index
    path.write_bytes(data)
    with opened(path) as mapped:
        (fault,) = check_elf(mapped)
        assert (fault.slug, fault.symbol) == ("wrong-argument", one.symbol)


@pytest.mark.covering(1)
@pytest.mark.parametrize(("arch", "by", "how"), _CELLS)
def test_bound_at_once_or_at_a_fixed_address(
    tmp_path: Path, arch: str, by: str, how: tuple[str, ...]
) -> None:
    path = program(tmp_path, arch, by, "-pie", "-z", "now", compiling=("-fPIC", *how))
    with opened(path) as mapped:
        assert _named(mapped) == named_by_linker(path)
        assert not [one for one in mapped.slots if one.helper or one.binding == words.LAZY]
    path = program(tmp_path, arch, by, "-no-pie", compiling=("-fno-pic", *how))
    with opened(path) as mapped:
        names = named_by_linker(path)
        assert set(names.values()) >= _CALLED
        assert {vaddr: _named(mapped)[vaddr] for vaddr in names} == names
        with opened(without_sections(path)) as bare:
            assert joined(bare, "ADDR64") == joined(mapped, "ADDR64")


_NEAR = "extern int abs(int), far(int); int {name}(int x) {{ return abs(x) + far(x); }}"


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    "flags",
    [
        ("--plt-thread-safe", "--plt-static-chain"),
        ("--no-plt-thread-safe", "--plt-static-chain"),
        ("--no-plt-thread-safe", "--plt-align=5"),
        ("--stub-group-size=1",),
        ("-Ttext-segment=0x10000000",),
    ],
)
@pytest.mark.parametrize("far", [False, True])
def test_the_forms_of_elfv1(tmp_path: Path, flags: tuple[str, ...], far: bool) -> None:
    units = [
        compiled(tmp_path, "ppc64", _NEAR.format(name=name), "-fPIC", name=name)
        for name in ("first", "second")
    ]
    if far:  # more than a 16-bit distance between the TOC pointer and .plt
        text = '.section .toc, "aw", @progbits\n.space 72000\n'
        units.append(assembled(tmp_path, "ppc64", text, name="table"))
    path = linked(tmp_path, "ppc64", "bfd", units, "-shared", "-z", "lazy", *flags)
    with opened(path) as mapped:
        assert mapped.partial == []
        assert _named(mapped) == named_by_linker(path)
        assert set(_named(mapped).values()) == {"abs", "far"}
        assert named_by_objdump(path, _OBJDUMP) == {
            one.helper: one.symbol for one in mapped.slots if one.binding == words.LAZY
        }
        code = mapped.image.source.read(mapped.image.locate(next(iter(_named(mapped)))), 8)
        assert (b"\x3d\x62" in code) == far
        with opened(without_sections(path)) as bare:
            assert joined(bare, "ADDR64") == joined(mapped, "ADDR64")


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("flags", "data", "count"),
    [
        ((), "d", 2),
        ((), "0", 1),
        (("--power10-stubs=yes",), "0", 1),
        (("--no-power10-stubs", "-z", "now"), "d", 1),
    ],
)
def test_callers_with_and_without_a_toc_share_slots(
    tmp_path: Path, flags: tuple[str, ...], data: str, count: int
) -> None:
    """They share stubs, too, with an entrance for each, unless code finds its data without TOC."""
    text = (
        f"extern int d, abs(int), far(int); int other(int x) {{ return abs(x) + far(x) + {data}; }}"
    )
    units = [
        compiled(tmp_path, "ppc64le", _NEAR.format(name="first"), "-fPIC", name="first"),
        compiled(tmp_path, "ppc64le", text, "-fPIC", _P10, name="other"),
    ]
    path = linked(tmp_path, "ppc64le", "bfd", units, "-shared", *flags)
    with opened(path) as mapped:
        names = named_by_linker(path)
        assert {vaddr: _named(mapped)[vaddr] for vaddr in names} == names
        counts = {one.symbol: len(one.stubs) for one in mapped.slots if one.stubs}
        assert counts == dict.fromkeys(("abs", "far"), count)
        if count == 2:  # GNU ld names the first of two stubs
            order = [name for _, name in sorted(_named(mapped).items())]
            assert order[::2] == order[1::2] == [names[at] for at in sorted(names)]
        with opened(without_sections(path)) as bare:
            assert joined(bare, "ADDR64") == joined(mapped, "ADDR64")


# with more of a TOC than two units have room for in one
_UNIT = """
	.section .toc, "aw", @progbits
.Ltable:	.space 56000
	.text
{entry}	mflr 0
	std 0, 16(1)
	stdu 1, -112(1)
	ld 9, .Ltable@toc(2)
	bl own{unit}
	nop
	bl far
	nop
	addi 1, 1, 112
	ld 0, 16(1)
	mtlr 0
	blr
	.cfi_endproc
"""
_ENTRY_V1 = """
	.section .opd, "aw"
	.globl f{unit}
	.type f{unit}, @function
f{unit}:	.quad .Lf, .TOC.@tocbase, 0
	.text
.Lf:	.cfi_startproc
"""
_ENTRY_V2 = """
	.abiversion 2
	.globl f{unit}
	.type f{unit}, @function
f{unit}:	.cfi_startproc
0:	addis 2, 12, .TOC.-0b@ha
	addi 2, 2, .TOC.-0b@l
	.localentry f{unit}, .-f{unit}
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["ppc64", "ppc64le"])
@pytest.mark.parametrize("has_frames", [True, False])
def test_more_than_one_toc(tmp_path: Path, arch: str, has_frames: bool) -> None:
    """The same bytes mean another slot where %r2 leads to another TOC: the callers tell."""
    entry = _ENTRY_V1 if arch == "ppc64" else _ENTRY_V2
    units = [
        assembled(
            tmp_path,
            arch,
            _UNIT.format(entry=entry.format(unit=unit), unit=unit),
            name=f"unit{unit}",
        )
        for unit in range(3)
    ]
    frames = "--eh-frame-hdr" if has_frames else "--no-eh-frame-hdr"
    path = linked(tmp_path, arch, "bfd", units, "-shared", "-z", "lazy", frames)
    with opened(path) as mapped:
        names_of = named_by_linker(path)
        ours = _named(mapped)
        assert {vaddr: names_of[vaddr] for vaddr in ours} == ours
        assert len(names_of) == 6
        if has_frames:
            assert ours == names_of
            assert mapped.partial == []
        else:
            assert len(ours) + len(mapped.stubs_without_slot) == 6
            assert bool(mapped.partial) == bool(mapped.stubs_without_slot)


@pytest.mark.every(2)
@pytest.mark.parametrize(("arch", "how"), [("ppc64le", ()), ("ppc64le", (_P10,)), ("ppc64", ())])
def test_calls_that_load_the_slot_in_place_are_no_stubs(
    tmp_path: Path, arch: str, how: tuple[str, ...]
) -> None:
    text = _NEAR.format(name="f") + " int g(int x) { return x > 3 ? far(x + 1) : abs(x); }"
    unit = compiled(tmp_path, arch, text, "-fPIC", "-fno-plt", *how, "-O2")
    # what gcc makes of a tail call with -fno-plt and without a TOC: as in a stub
    tail = tmp_path / "tail.s"
    tail.write_text(
        "\t.globl tail\ntail:\n\tcmpwi 3, 9\n\tbgt 1f\n\tblr\n1:\taddi 3, 3, 1\n"
        "\tpld 12, abs@plt@pcrel(0), 1\n\tmtctr 12\n\tbctr\n"
    )
    units = [unit]
    if how:
        tail_unit = tmp_path / "tail.o"
        flags = ("-a64", "-mlittle", "-mpower10")
        made_in(tmp_path, "powerpc64-linux-gnu-as", *flags, "-o", tail_unit, tail)
        units.append(tail_unit)
    path = linked(tmp_path, arch, "bfd", units, "-shared", "-z", "lazy")
    with opened(path) as mapped:
        assert _named(mapped) == named_by_linker(path)
        assert mapped.stubs_without_slot == ()


def test_thread_local_blocks_that_are_there_need_no_call(tmp_path: Path) -> None:
    text = "extern __thread int far; extern int abs(int); int f(void) { return abs(far); }"
    for arch in ("ppc64", "ppc64le"):
        unit = compiled(tmp_path, arch, text, "-fPIC")
        names = compiled(tmp_path, arch, "void __tls_get_addr_opt(void) {}", name="opt")
        library = linked(tmp_path, arch, "bfd", [names], "-shared", name="opt.so")
        path = linked(tmp_path, arch, "bfd", [unit, library], "-shared", "-z", "lazy")
        with opened(path) as mapped:
            assert _named(mapped) == named_by_linker(path)
            assert set(_named(mapped).values()) == {"abs", "__tls_get_addr_opt"}


@pytest.mark.covering(1)
@pytest.mark.parametrize(("arch", "how"), [("ppc64le", ()), ("ppc64", ()), ("ppc64", (_V2,))])
@pytest.mark.parametrize("kind", ["-static", "-pie"])
def test_functions_that_choose_themselves(
    tmp_path: Path, arch: str, how: tuple[str, ...], kind: str
) -> None:
    text = """
    static int one(int x) { return x; }
    static int (*choose(void))(int) { return one; }
    int chosen(int) __attribute__((ifunc("choose"), visibility("hidden")));
    int main(int argc) { return chosen(argc) + chosen(argc + 1); }
    """
    unit = compiled(tmp_path, arch, text, "-fPIC", *how)
    path = linked(tmp_path, arch, "bfd", [unit], kind, "-e", "main")
    with opened(path) as mapped:
        (slot,) = [one for one in mapped.slots if one.binding == words.IRELATIVE]
        assert {stub.kind for stub in slot.stubs} == {words.IPLT}
        assert len(slot.stubs) == 1
        assert slot.symbol in {"choose", "chosen"}
        assert slot.symbol_type == "ifunc"
    with opened(without_sections(path)) as bare:
        (slot,) = [one for one in bare.slots if one.binding == words.IRELATIVE]
        assert len(slot.stubs) == 1


def test_pointers_in_the_toc_are_slots_others_are_not(tmp_path: Path) -> None:
    text = PROGRAM + "int (*pointer)(int) = toupper;"
    unit = compiled(tmp_path, "ppc64le", text, "-fPIC")
    path = linked(tmp_path, "ppc64le", "bfd", [unit], "-shared", "-z", "lazy")
    assert run("readelf", "-rW", path).count("R_PPC64_ADDR64") == 3
    with opened(path) as mapped:
        pointers = [one for one in mapped.slots if one.kind == "R_PPC64_ADDR64"]
        found = {(one.symbol, one.section) for one in pointers}
        assert found == {("abs", ".got"), ("toupper", ".got")}
    with opened(without_sections(path)) as bare:
        assert not [one for one in bare.slots if one.kind == "R_PPC64_ADDR64"]
        assert any("not told from other data" in why for why in bare.partial)
