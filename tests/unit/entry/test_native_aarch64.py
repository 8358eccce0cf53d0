# SPDX-License-Identifier: Apache-2.0
"""What a breakpoint displaces on aarch64 does the same elsewhere, or when the tracer does it.

An emulator of the processor runs the same instruction where it was, the compiler's own headers say
how registers lie, and the assembler where each instruction of a text is.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from soscope.binfmt.isa.aarch64.code import PLAIN, SIZE
from soscope.binfmt.stubs.finder import Through
from soscope.entry.native.isa import aarch64
from soscope.entry.native.machine import NativeMachine
from soscope.model.arch import EM_AARCH64, arch_of
from tests.support.files.elffiles import run
from tests.support.machines.tools import need
from tests.support.targets.build import made_in

CODE, CAVE, DATA, STACK = 0x40_0000, 0x48_0000, 0x50_0000, 0x60_0000
PAGE = 0x10000
WORD = (1 << 64) - 1
SEED = 7

# each is at a place of its own; `there` is a label behind them
INSTRUCTIONS = """
b there; bl there; b .; b.eq there; b.ne there; b.cs there; b.cc there; b.mi there; b.pl there
b.vs there; b.vc there; b.hi there; b.ls there; b.ge there; b.lt there; b.gt there; b.le there
b.al there; cbz x3, there; cbnz x3, there; cbz w4, there; cbnz w4, there; cbz xzr, there
tbz x5, #0, there; tbnz x5, #0, there; tbz x6, #45, there; tbnz x6, #45, there; tbz w7, #31, there
br x8; blr x9; ret; ret x10; blr x30; adr x11, there; adr xzr, there; adr x12, .-16
adrp x13, there; adrp x14, .-0x3000; ldr x15, there; ldr w16, there; ldrsw x17, there
prfm pldl1keep, there; nop; yield; paciasp; autiasp; bti c; dmb ish; mrs x18, tpidr_el0
mov x0, x1; mov w0, w1; add x0, x1, #16; sub sp, sp, #32; ldr x0, [x20, #8]; str x1, [x20, #16]
ldp x2, x3, [x20], #16; stp x29, x30, [sp, #-16]!; cmp x0, x1; csel x0, x1, x2, eq; mul x3, x4, x5
ldrb w0, [x20]; madd x6, x7, x8, x9; fmov d0, x1; fadd d1, d2, d3; movi v4.16b, #3; ldr q5, [x20]
ubfx x0, x1, #3, #9; ccmp x0, x1, #4, ne; retaa; braa x17, x16
"""
# these say where they are, or belong to those beside them
TIED = """
svc #0; brk #1; hlt #2; hvc #0; eret; blraa x8, x9; blraaz x8; ldr d0, there; ldr q1, there
ldxr x0, [x1]; stxr w2, x0, [x1]; ldaxp x0, x1, [x2]; stlxr w3, x4, [x5]; udf #0
cpyp [x0]!, [x1]!, x2!; cpym [x0]!, [x1]!, x2!; cpye [x0]!, [x1]!, x2!; setp [x0]!, x1!, x2
"""


def machine() -> NativeMachine:
    arch = arch_of(EM_AARCH64, 64, "<")
    assert arch is not None
    known = aarch64.machine(arch)
    assert known is not None
    return known


def assembled(folder: Path, text: str, *linked: str) -> tuple[bytes, dict[str, int]]:
    """Return the code of a text, and its labels; `linked`: the linker's words, if it is linked."""
    source, result = folder / "code.s", folder / "code.o"
    source.write_text(".arch armv9.3-a+mops+pauth\n" + text)
    made_in(folder, "clang", "--target=aarch64-linux-gnu", "-c", "-o", result, source)
    if linked:
        made_in(folder, "aarch64-linux-gnu-ld", "-e", "0", *linked, "-o", "code", result)
        result = folder / "code"
    run("aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", result, folder / "code.bin")
    labels = {}
    for line in run("aarch64-linux-gnu-nm", result).splitlines():
        value, kind, name = line.split()
        if kind == "t":
            labels[name] = int(value, 16)
    return (folder / "code.bin").read_bytes(), labels


def each(text: str) -> list[str]:
    return [word.strip() for word in text.replace("\n", ";").split(";") if word.strip()]


class Emulated:
    """The processor, as Unicorn has it."""

    def __init__(self, code: bytes) -> None:
        unicorn = pytest.importorskip("unicorn")
        from unicorn import arm64_const as a

        self._engine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self._engine.ctl_set_cpu_model(a.UC_CPU_ARM64_MAX)
        for start in (CODE, CAVE, DATA, STACK):
            self._engine.mem_map(start, PAGE)
        self._engine.mem_write(CODE, code)
        names = [f"X{number}" for number in range(31)] + ["SP", "PC", "NZCV"]
        self._numbers = [getattr(a, f"UC_ARM64_REG_{name}") for name in names]

    def put(self, at: int, code: bytes) -> None:
        self._engine.mem_write(at, code)

    def read(self, at: int, size: int) -> bytes:
        return bytes(self._engine.mem_read(at, size))

    def run(self, values: list[int], at: int, end: int, most: int) -> list[int]:
        """Return the registers after up to `most` instructions, or at `end`.

        Data and stack are then what these instructions have made of them.
        """
        self._engine.mem_write(DATA, bytes(range(256)) + bytes(PAGE - 256))
        self._engine.mem_write(STACK, bytes(PAGE))
        for number, value in zip(self._numbers, values, strict=True):
            self._engine.reg_write(number, value)
        self._engine.emu_start(at, end, count=most)
        return [self._engine.reg_read(number) for number in self._numbers]


class Held:
    """The emulated memory, as a tracer reads it."""

    def __init__(self, emulated: Emulated) -> None:
        self.read: Callable[[int, int], bytes] = emulated.read


def states() -> Iterator[list[int]]:
    """Give registers: numbers of all sizes, zeros, addresses, all flags."""
    chance = random.Random(SEED)
    for _ in range(40):
        values = [chance.choice((0, 1, chance.getrandbits(33), chance.getrandbits(64)))] * 31
        values = [chance.choice((0, 1, chance.getrandbits(64))) for _ in values]
        for number in (8, 9, 10, 16, 17, 30):  # who branches there gets there
            values[number] = CODE + 4 * chance.randrange(64)
        values[20] = DATA + 64
        yield [*values, STACK + PAGE // 2, 0, chance.randrange(16) << 28]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    lines = "\n".join(each(INSTRUCTIONS))
    text = f"{lines}\nnop\nthere: .quad 0x8123456789abcdef\n.quad 0x7fffffff80000000\n"
    return assembled(tmp_path_factory.mktemp("code"), text)[0]


@pytest.mark.parametrize("number", range(len(each(INSTRUCTIONS))), ids=each(INSTRUCTIONS))
def test_it_does_the_same_elsewhere(number: int, code: bytes) -> None:
    known, addr = machine(), CODE + SIZE * number
    one = code[SIZE * number : SIZE * number + SIZE]
    decoded = known.decode(one)
    assert decoded is not None
    is_branch = each(INSTRUCTIONS)[number].split()[0] in {"retaa", "braa"}
    here, there = Emulated(code), Emulated(code)
    for values in states():
        expected = here.run([*values[:32], addr, values[33]], addr, 0, 1)
        if known.can_go(decoded):
            assert getattr(decoded, "kind", PLAIN) != PLAIN
            room = (ctypes.c_uint64 * known.register_count)(*values)
            assert known.go(one, decoded, addr, room, Held(here))  # type: ignore[arg-type]
            got = list(room)
        else:
            copy = known.copy(one, decoded, addr, CAVE)
            assert copy is not None
            assert len(copy) <= known.cell
            there.put(CAVE, copy)
            got = there.run([*values[:32], CAVE, values[33]], CAVE, 0, 1 if is_branch else 2)
            for start in (DATA, STACK):
                assert there.read(start, PAGE) == here.read(start, PAGE)
        assert got == expected


def test_what_says_where_it_is_stays(tmp_path: Path) -> None:
    lines = each(TIED)
    code, _ = assembled(tmp_path, "\n".join(lines) + "\nnop\nthere: .quad 1, 2\n")
    known = machine()
    for number, line in enumerate(lines):
        assert known.decode(code[SIZE * number : SIZE * number + SIZE]) is None, line
    assert known.decode(code[:3]) is None


def test_a_jump_back_that_does_not_reach_is_none() -> None:
    known, one = machine(), (0xAA0103E0).to_bytes(SIZE, "little")
    decoded = known.decode(one)
    assert decoded is not None
    for distance in (1 << 27, -(1 << 27), 1 << 33):
        assert known.copy(one, decoded, CODE, CODE + distance) is None


def test_who_is_sent_on_has_not_jumped() -> None:
    """Guarded code may only be entered at its marks by who has jumped: BTYPE of PSTATE."""
    known = machine()
    values = (ctypes.c_uint64 * known.register_count)()
    values[known.registers["cpsr"]] = 0x6000_0C00
    known.move(values, CAVE)
    assert values[known.pc] == CAVE
    assert values[known.registers["cpsr"]] == 0x6000_0000


def test_registers_lie_as_the_headers_say(tmp_path: Path) -> None:
    need("/usr/aarch64-linux-gnu/include/sys/user.h")
    names = [("regs", "x0"), ("regs[29]", "x29"), ("regs[30]", "x30"), ("sp", "sp"), ("pc", "pc")]
    fields = ", ".join(f"offsetof(struct user_regs_struct, {field})" for field, _ in names)
    source, result = tmp_path / "layout.c", tmp_path / "layout.o"
    source.write_text(
        "#include <stddef.h>\n#include <elf.h>\n#include <sys/procfs.h>\n#include <sys/user.h>\n"
        "#include <asm/unistd.h>\n"
        '__attribute__((section("facts"))) const unsigned long layout[] = {'
        f"{fields}, offsetof(struct user_regs_struct, pstate), sizeof(struct user_regs_struct),"
        "offsetof(struct user_fpsimd_struct, vregs[7]), sizeof(struct user_fpsimd_struct),"
        "NT_PRSTATUS, NT_FPREGSET, NT_ARM_TLS, __NR_clone, __NR_clone3};\n"
    )
    includes = "-isystem/usr/aarch64-linux-gnu/include"
    made_in(tmp_path, "clang", "--target=aarch64-linux-gnu", includes, "-c", "-o", result, source)
    run("aarch64-linux-gnu-objcopy", "-O", "binary", "-j", "facts", result, tmp_path / "layout")
    told = (tmp_path / "layout").read_bytes()
    layout = [int.from_bytes(told[at : at + 8], "little") for at in range(0, len(told), 8)]
    known = machine()
    assert layout == [
        *(8 * known.registers[name] for _, name in names),
        8 * known.registers["cpsr"],
        8 * known.register_count,
        known.floats["v7"][0],
        known.floats_size,
        known.word_set,
        known.float_set,
        known.apart["TPIDR_EL0"],
        *known.making,
    ]


SHAPES = """
stub_near: adrp x16, near; ldr x17, [x16, #0x10]; add x16, x16, #0x10; br x17
marked: bti c; stub_far: adrp x16, far; ldr x17, [x16, #0xff8]; add x16, x16, #0xff8; br x17
signed: bti c; stub_signed: adrp x16, near; ldr x17, [x16, #0x10]; add x16, x16, #0x10
autia1716; br x17
stub_keyed: adrp x16, far; ldr x17, [x16, #0xff8]; add x16, x16, #0xff8; braa x17, x16
unbound: stp x16, x30, [sp, #-16]!; adrp x16, other; ldr x17, [x16, #0x18]; add x16, x16, #0x18
br x17
function: stp x29, x30, [sp, #-32]!; mov x29, sp; adrp x0, near; ldr x0, [x0, #0x10]; mov x1, #5
call_near: blr x0
blr x0
adrp x19, far; mov x2, x3; ldr x20, [x19, #0xff8]; fmov d20, x1; str x20, [sp, #16]; ldr d20, [x1]
call_kept: blr x20
cbz x0, 1f; ldp x2, x3, [x1, #16]
call_again: blr x20
1: mov x20, x2; blr x20
adrp x3, near; ldr x3, [x3, #0x10]; bl function; blr x3
adrp x21, near; ldr x21, [x21, #0x10]; umov w21, v0.s[1]; blr x21
adrp x22, near; ldr x22, [x22, #0x10]; ldp x1, x22, [x2]; blr x22
adrp x23, near; ldr x23, [x23, #0x10]; ldr x1, [x23, #8]!; blr x23
adrp x24, near; ldr x24, [x24, #0x10]; ldadd x1, x24, [x2]; blr x24
adrp x25, near; ldr x25, [x25, #0x10]; stxr w25, x1, [x2]; blr x25
adrp x26, near; ldr x26, [x26, #0x10]; mrs x26, tpidr_el0; blr x26
adrp x27, near; ldr w27, [x27, #0x10]; blr x27
adrp x28, near; ldr x28, [x28, #0x10]; ldp x29, x30, [sp], #32
stp x29, x30, [sp, #-32]!; blr x28
adrp x9, near; ldr x9, [x9, #0x10]; ldp x29, x30, [sp], #32
jump_near: br x9
blr x9
ret
"""
NEAR, FAR, OTHER, PLACE = 0x20010, 0x21FF8, 0x23018, 0x10000


def test_call_sites_are_those_of_the_labels(tmp_path: Path) -> None:
    """Stubs of each kind, calls in their place, and registers that have something else by then."""
    from soscope.binfmt.isa.aarch64.code import through

    places = {"near": NEAR, "far": FAR, "other": OTHER}
    words = [f"--defsym={name}={place:#x}" for name, place in places.items()]
    code, labels = assembled(tmp_path, SHAPES, f"-Ttext={PLACE:#x}", *words)
    slots = {NEAR, FAR}
    found = sorted(through(code, PLACE, slots, 64))
    expected = []
    for label, at in labels.items():
        kind, _, name = label.partition("_")
        slot = FAR if name in {"far", "kept", "again", "keyed"} else NEAR
        if kind == "stub":
            expected.append(Through(at, slot, is_call=False))
        elif kind in {"call", "jump"}:
            word = int.from_bytes(code[at - PLACE : at - PLACE + SIZE], "little")
            expected.append(Through(at, slot, kind == "call", word >> 5 & 31))
    assert found == sorted(expected)
    assert len(found) == 8
    assert sorted(through(b"\0\0" + code, PLACE - 2, slots, 64)) == found
    assert list(through(code[:5], PLACE, slots, 64)) == []
