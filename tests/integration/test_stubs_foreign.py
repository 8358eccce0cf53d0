# SPDX-License-Identifier: Apache-2.0
"""Slots and stubs of files for other processors, against running them and against objdump."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.binfmt.elf.filemap import ElfMap
from soscope.inspect.check.check import check_elf
from soscope.inspect.check.emulate import Emulator, argument_of, memory_of
from soscope.inspect.check.processors import elf_cpu
from soscope.model import filemap as words
from tests.support.files.stubs import (
    FOREIGN,
    compiled,
    differences,
    linked,
    named_by_objdump,
    opened,
    program,
    without_sections,
)

_CELLS = [
    (arch, by)
    for arch in ("aarch64", "arm", "riscv64", "s390x")
    for by in ("bfd", "gold", "lld", "mold")
    if (arch, by) not in {("riscv64", "gold"), ("s390x", "lld")}  # LLD 14 has no s390x
]
_CALLED = {"puts", "malloc", "free", "atoi", "abs"}
_PIE = ("-pie", "-z", "lazy")

# an IFUNC of the program's own, called and with its address taken
_IFUNC = """
static int one(int x) { return x; }
static int (*choose(void))(int) { return one; }
int chosen(int) __attribute__((ifunc("choose"), visibility("hidden")));
int main(int argc) { return chosen(argc) + chosen(argc + 1); }
"""
_TLS = "extern __thread int far; extern int abs(int); int f(int x) { return abs(x) + far; }"


def _stubs(mapped: ElfMap) -> list[tuple[int, int, int]]:
    return [(one.vaddr, one.size, one.slot) for slot in mapped.slots for one in slot.stubs]


@pytest.mark.covering(1)
@pytest.mark.parametrize(("arch", "by"), _CELLS)
def test_every_stub_goes_through_its_slot(tmp_path: Path, arch: str, by: str) -> None:
    path = program(tmp_path, arch, by, *_PIE)
    with opened(path) as mapped:
        assert (mapped.arch, mapped.kind, mapped.partial) == (arch, "pie", [])
        calls = [one for one in mapped.slots if one.binding == words.LAZY]
        assert {one.symbol for one in mapped.slots if one.stubs} >= _CALLED
        assert {one.symbol for one in calls} >= _CALLED - {"abs"}
        assert all(len(one.stubs) == 1 for one in calls)
        assert all(one.kind.endswith(("JUMP_SLOT", "JMP_SLOT")) for one in calls)
        assert mapped.stubs_without_slot == ()
        assert differences(mapped) == []
        assert list(check_elf(mapped)) == []
        assert [argument_of(mapped, one) for one in calls] == [
            one.resolver_argument for one in calls
        ]
        # the first call goes to where all of them begin, on s390x to the stub's other half
        helpers = {one.helper for one in calls}
        if arch == "s390x" and by != "mold":
            assert helpers == {one.stubs[0].vaddr + 14 for one in calls}
        else:
            (first,) = helpers
            assert first is not None
            assert first < min(one.stubs[0].vaddr for one in calls)
        with opened(without_sections(path)) as bare:
            assert _stubs(bare) == _stubs(mapped)
            assert [one.helper for one in bare.slots] == [one.helper for one in mapped.slots]
        if by == "bfd":
            named = named_by_objdump(path, FOREIGN[arch][1] + "objdump")
            assert named == {
                stub.vaddr: slot.symbol for slot in mapped.slots for stub in slot.stubs
            }


@pytest.mark.covering(1)
@pytest.mark.parametrize(("arch", "by"), _CELLS)
def test_bound_at_once_or_at_a_fixed_address(tmp_path: Path, arch: str, by: str) -> None:
    path = program(tmp_path, arch, by, "-pie", "-z", "now")
    with opened(path) as mapped:
        assert {one.symbol for one in mapped.slots if one.stubs} >= _CALLED
        assert not [one for one in mapped.slots if one.binding == words.LAZY or one.helper]
        assert differences(mapped) == []
    flags = ("-no-pie", "-z", "lazy") if by != "lld" else ("-no-pie", "-z", "lazy", "-s")
    path = program(tmp_path, arch, by, *flags, compiling=("-fno-pic",))
    with opened(path) as mapped:
        assert mapped.kind == "executable"
        assert {one.symbol for one in mapped.slots if one.stubs} >= _CALLED
        assert differences(mapped) == []
        with opened(without_sections(path)) as bare:
            assert _stubs(bare) == _stubs(mapped)


@pytest.mark.covering(1)
@pytest.mark.parametrize(("arch", "by"), _CELLS)
def test_code_that_calls_through_the_got_has_no_stubs(tmp_path: Path, arch: str, by: str) -> None:
    text = """
    extern int abs(int), far(int), data;
    int *pointer = &data;  /* no slot: the same relocation on some, but not in the GOT */
    int f(int x) { int (*volatile p)(int) = abs, (*volatile q)(int) = far; return p(x) + q(x); }
    """
    unit = compiled(tmp_path, arch, text, "-fPIC")
    path = linked(tmp_path, arch, by, [unit], "-shared", "-z", "lazy")
    with opened(path) as mapped:
        found = {one.symbol: (one.binding, one.helper, one.stubs) for one in mapped.slots}
        assert found == dict.fromkeys(("abs", "far"), (words.NOW, None, ()))
        assert mapped.stubs_without_slot == ()
        assert mapped.partial == []
        with opened(without_sections(path)) as bare:
            assert {one.symbol for one in bare.slots} == {"abs", "far"}
            assert _stubs(bare) == []


@pytest.mark.covering(1)
@pytest.mark.parametrize(("arch", "by"), [cell for cell in _CELLS if cell != ("s390x", "gold")])
def test_functions_that_choose_themselves(tmp_path: Path, arch: str, by: str) -> None:
    unit = compiled(tmp_path, arch, _IFUNC, "-fPIC")
    modes: list[tuple[str, ...]] = [("-static",), ("-shared",)]
    if by != "gold":  # it makes no static-pie
        modes.append(("-static", "-pie", "--no-dynamic-linker"))
    for flags in modes:
        path = linked(tmp_path, arch, by, [unit], "-e", "main", *flags)
        with opened(path) as mapped:
            (slot,) = [one for one in mapped.slots if one.binding == words.IRELATIVE]
            assert [one.kind for one in slot.stubs] == [words.IPLT]
            assert slot.kind.endswith("_IRELATIVE")
            assert slot.symbol in {"choose", "chosen"}  # they are one, and neither is global
            assert slot.resolver_argument is None
            assert differences(mapped) == []
            with opened(without_sections(path)) as bare:
                assert _stubs(bare) == _stubs(mapped)


_BRANCHES = {
    "bti": ("-z", "force-bti"),
    "pac": ("-z", "pac-plt"),
    "both": ("-z", "force-bti", "-z", "pac-plt"),
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("by", ["bfd", "lld"])
@pytest.mark.parametrize("guard", _BRANCHES)
def test_protected_branches_of_aarch64(tmp_path: Path, by: str, guard: str) -> None:
    compiling = ("-fPIC", "-mbranch-protection=standard")
    path = program(tmp_path, "aarch64", by, *_PIE, *_BRANCHES[guard], compiling=compiling)
    with opened(path) as mapped:
        stubs = [stub for slot in mapped.slots for stub in slot.stubs]
        assert {one.symbol for one in mapped.slots if one.stubs} >= _CALLED
        size = 24 if guard != "bti" or by == "lld" else 16
        assert {one.size for one in stubs} == {size}
        assert differences(mapped) == []
        with opened(without_sections(path)) as bare:
            assert _stubs(bare) == _stubs(mapped)
    # at a fixed address abs's own stub is its address
    path = program(
        tmp_path,
        "aarch64",
        by,
        *("-no-pie", "-z", "lazy", *_BRANCHES[guard]),
        compiling=("-fno-pic", "-mbranch-protection=standard"),
    )
    with opened(path) as mapped:
        assert {one.symbol for one in mapped.slots if one.stubs} >= _CALLED
        assert differences(mapped) == []


@pytest.mark.parametrize("arch", ["arm", "s390x"])
def test_a_stub_across_what_is_read_at_once(tmp_path: Path, arch: str) -> None:
    unit = compiled(tmp_path, arch, "extern int a(int); int f(int x) { return a(x) + 1; }", "-fPIC")
    first = 20 if arch == "arm" else 32  # bytes before the first stub
    plt = f"--section-start=.plt={0x30000 - first - 4:#x}"
    flags = ("-shared", "-z", "now", plt, "--section-start=.got=0x90000")
    path = linked(tmp_path, arch, "bfd", [unit], *flags)
    with opened(path) as mapped:
        (slot,) = mapped.slots
        assert slot.stubs[0].vaddr == 0x30000 - 4
        assert differences(mapped) == []


def test_thread_local_descriptors_are_slots_without_stubs(tmp_path: Path) -> None:
    unit = compiled(tmp_path, "aarch64", _TLS, "-fPIC")
    for by in ("bfd", "gold", "lld", "mold"):
        path = linked(tmp_path, "aarch64", by, [unit], "-shared", "-z", "lazy")
        with opened(path) as mapped:
            (slot,) = [one for one in mapped.slots if one.binding == words.TLSDESC]
            assert (slot.symbol, slot.symbol_type, slot.stubs) == ("far", "tls", ())
            assert [one.symbol for one in mapped.slots if one.stubs] == ["abs"]
            assert mapped.stubs_without_slot == ()
            assert differences(mapped) == []


@pytest.mark.parametrize("by", ["bfd", "lld"])
def test_functions_of_their_own_convention_are_bound_at_once(tmp_path: Path, by: str) -> None:
    text = """
    int vector(int), abs(int);
    __asm__(".variant_pcs vector");
    int f(int x) { return vector(x) + abs(x); }
    """
    unit = compiled(tmp_path, "aarch64", text, "-fPIC")
    path = linked(tmp_path, "aarch64", by, [unit], "-shared", "-z", "lazy")
    with opened(path) as mapped:
        bindings = {one.symbol: (one.binding, bool(one.helper)) for one in mapped.slots}
        assert bindings == {"vector": (words.NOW, False), "abs": (words.LAZY, True)}
        assert differences(mapped) == []


def test_packed_relative_relocations_are_no_slots(tmp_path: Path) -> None:
    text = "extern int abs(int); static int x; int *p = &x; int f(void) { return abs(*p); }"
    unit = compiled(tmp_path, "aarch64", text, "-fPIC")
    flags = ("-shared", "-z", "lazy", "--pack-dyn-relocs=relr")
    path = linked(tmp_path, "aarch64", "lld", [unit], *flags)
    with opened(path) as mapped:
        assert mapped.image.dynamic.get(36) is not None  # DT_RELR
        assert {one.symbol for one in mapped.slots} == {"abs", "p"}
        assert differences(mapped) == []


def test_thumb_code_enters_four_bytes_before(tmp_path: Path) -> None:
    text = "extern int abs(int), far(int); int f(int x) { far(x); return abs(x); }"
    unit = compiled(tmp_path, "arm", text, "-fPIC", "-mthumb", "-O2")
    path = linked(tmp_path, "arm", "bfd", [unit], "-shared", "-z", "lazy")
    with opened(path) as mapped:
        slots = {one.symbol: one for one in mapped.slots}
        assert {name: one.stubs[0].size for name, one in slots.items()} == {"abs": 16, "far": 12}
        assert differences(mapped) == []
        # the ARM entrance of the same stub
        assert mapped.machine is not None
        cpu = elf_cpu(mapped.machine, "<")
        assert cpu is not None
        machine = Emulator(cpu, *memory_of(mapped))
        machine.put(slots["abs"].vaddr, machine.free)
        assert machine.run(slots["abs"].stubs[0].vaddr + 4).addr == machine.free
        named = named_by_objdump(path, "arm-linux-gnueabihf-objdump")
        assert named == {one.stubs[0].vaddr: name for name, one in slots.items()}
    with opened(without_sections(path)) as bare, opened(path) as mapped:
        assert _stubs(bare) == _stubs(mapped)


def test_the_other_forms_of_arm(tmp_path: Path) -> None:
    path = program(tmp_path, "arm", "bfd", *_PIE, "--long-plt")
    with opened(path) as mapped:
        assert {stub.size for slot in mapped.slots for stub in slot.stubs} == {16}
        assert differences(mapped) == []
    # more than 128 MB away: LLD takes the distance from a word behind the code
    script = tmp_path / "far.ld"
    script.write_text(
        "SECTIONS { .plt 0x10000 : { *(.plt) } .text : { *(.text*) }"
        " .got.plt 0x40000000 : { *(.got.plt) } }"
    )
    path = program(tmp_path, "arm", "lld", *_PIE, "-T", str(script))
    with opened(path) as mapped:
        assert {one.symbol for one in mapped.slots if one.stubs} >= _CALLED - {"abs"}
        assert {stub.size for slot in mapped.slots for stub in slot.stubs} == {16}
        assert differences(mapped) == []


def test_a_processor_that_knows_thumb_alone(tmp_path: Path) -> None:
    text = "extern int abs(int); int f(int x) { return abs(x) + 1; }"
    words_ = ("-fPIC", "-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=soft")
    unit = compiled(tmp_path, "arm", text, *words_)
    path = linked(tmp_path, "arm", "bfd", [unit], "-shared", "-z", "now")
    with opened(path) as mapped:
        (slot,) = [one for one in mapped.slots if one.stubs]
        assert (slot.symbol, slot.stubs[0].size) == ("abs", 16)
        assert differences(mapped) == []


def test_32_bits_of_risc_v(tmp_path: Path) -> None:
    text = "extern int near(int), far(int); int f(int x) { return near(x) + far(x); }"
    unit = compiled(tmp_path, "riscv32", text, "-fPIC")
    path = linked(tmp_path, "riscv32", "lld", [unit], "-shared", "-z", "lazy")
    with opened(path) as mapped:
        assert mapped.arch == "riscv32"
        assert {one.symbol for one in mapped.slots if one.stubs} == {"near", "far"}
        assert differences(mapped) == []
        with opened(without_sections(path)) as bare:
            assert _stubs(bare) == _stubs(mapped)
