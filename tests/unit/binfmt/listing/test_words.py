# SPDX-License-Identifier: Apache-2.0
"""The text of each instruction is what the disassembler Capstone makes of the same bytes."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

from soscope.binfmt.listing import (
    CALL,
    CELL,
    JUMP,
    LEAVE,
    NUMBER,
    REGISTER,
    THROUGH,
    Lister,
    Value,
    lister_of,
    walk,
)

AT = 0x401000

X86_64 = """
f3 0f 1e fa / ff 25 e4 2f 00 00 / f2 ff 25 e4 2f 00 00 / ff 15 9c ff ff ff / 68 2f 00 00 00
ff 35 e2 2f 00 00 / e9 e0 ff ff ff / f2 e9 10 00 00 00 / eb 0e / e8 ef be 01 00 / 6a 07
4c 8d 1d 5d 2a 00 00 / 4c 8b 1d 5d 2a 00 00 / 48 8b 35 11 22 00 00 / 41 bb 05 00 00 00
41 53 / 41 ff e3 / 4c 89 1c 24 / c3 / cc / 90 / 66 90 / f3 90 / 0f ae e8 / 0f 1f 00
0f 1f 40 00 / 0f 1f 44 00 00 / 66 0f 1f 44 00 00 / 48 8b 05 e1 0f 00 00
"""
I386 = """
f3 0f 1e fb / ff 25 0c a0 04 08 / ff a3 0c 00 00 00 / ff a3 f4 ff ff ff / ff 15 0c a0 04 08
ff 35 04 a0 04 08 / ff b3 04 00 00 00 / ff 31 / ff 61 04 / b9 10 00 00 00 / 8d 8b 04 00 00 00
8d 80 10 20 00 00 / a1 0c a0 04 08 / 8b 83 0c 00 00 00 / 8b 90 10 20 00 00 / 50 / 51 / 58 / 59
ff e2 / ff e0 / ff e1 / 89 0c 24 / 8b 4c 24 04 / 89 44 24 04 / 89 c8 / 68 10 00 00 00
e9 e0 ff ff ff / e8 00 00 00 00 / f4 / ff 93 10 00 00 00
"""
AARCH64 = """
1f 20 03 d5 / 5f 24 03 d5 / 9f 24 03 d5 / df 24 03 d5 / 9f 21 03 d5 / c0 03 5f d6 / 00 02 1f d6
20 02 1f d6 / 20 02 3f d6 / 11 0a 1f d7 / 30 00 00 b0 / 31 00 00 90 / 10 0e 40 f9 / 10 02 40 f9
31 22 00 91 / 10 02 10 91 / 10 42 40 91 / f0 47 bf a9 / f0 7b bf a9 / 50 00 00 18 / 90 00 00 58
fa 00 00 94 / f9 ff ff 17 / 10 00 00 10 / 20 00 20 d4 / f0 03 11 aa / 30 02 80 d2 / 10 02 40 b9
"""
MACHINES = {
    "x86-64": (X86_64, 64, "CS_ARCH_X86", "CS_MODE_64"),
    "i386": (I386, 32, "CS_ARCH_X86", "CS_MODE_32"),
    "aarch64": (AARCH64, 64, "CS_ARCH_ARM64", "CS_MODE_ARM"),
}


def instructions(text: str) -> list[bytes]:
    return [bytes.fromhex(one) for one in re.split(r"/|\n", text) if one.strip()]


CASES = [(arch, code) for arch, (text, *_) in MACHINES.items() for code in instructions(text)]


def plain(text: str) -> str:
    """Return the text without what disassemblers write differently: sizes, blanks, signs, names."""
    text = re.sub(r"\b(push|pop|jmp|call|mov|lea|ret|endbr)[lq]\b", r"\1", text.lower())
    text = re.sub(r"\bmovz\b", "mov", text).replace("#", "").replace("xchg %ax,%ax", "nop")
    text = re.sub(r"-?\b(?:0x[0-9a-f]+|[0-9]+)\b", lambda one: _number(one[0]), text)
    text = text.replace("<1>)", ")").replace(",)", ")") if text.startswith("nop") else text
    return text.replace("<0>(", "(").replace(" ", "")


def _number(text: str) -> str:
    value = int(text, 0)
    return f"<{value & 0xFFFF_FFFF_FFFF_FFFF if abs(value) > 1 << 31 else value}>"


def capstone(arch: str) -> Any:
    module: Any = import_module("capstone")
    _, _, family, mode = MACHINES[arch]
    machine = module.Cs(getattr(module, family), getattr(module, mode))
    if arch != "aarch64":
        machine.syntax = module.CS_OPT_SYNTAX_ATT
    return machine


def decoder(arch: str) -> Lister:
    found = lister_of(arch, MACHINES[arch][1], "<")
    assert found is not None
    return found


@pytest.mark.parametrize(("arch", "code"), CASES, ids=[f"{a}-{c.hex()}" for a, c in CASES])
def test_an_instruction_reads_as_capstone_has_it(arch: str, code: bytes) -> None:
    line = decoder(arch).line(code + b"\xff" * 8, AT)
    (at, size, name, operands), *_ = capstone(arch).disasm_lite(code, AT)
    assert line.known
    assert (line.vaddr, len(line.code)) == (at, size)
    theirs = f"{name} {operands}".strip()
    if line.text.startswith("bnd "):  # Capstone leaves the prefix out of some
        theirs = "bnd " + theirs.removeprefix("bnd ")
    assert plain(line.text) == plain(theirs)


@pytest.mark.parametrize("arch", MACHINES)
def test_what_is_no_instruction_is_bytes(arch: str) -> None:
    line = decoder(arch).line(b"\x06\0\0\0\0\0\0\0", AT)
    assert (line.known, line.flow) == (False, LEAVE)
    assert 0 < len(line.code) <= 4
    assert decoder(arch).line(b"", AT).flow == LEAVE


def reader(code: bytes, base: int = AT) -> Any:
    return lambda vaddr, size: code[max(vaddr - base, 0) :][:size] if vaddr >= base else b""


def test_what_plt0_pushes_is_on_the_stack() -> None:
    lister = decoder("x86-64")
    code = bytes.fromhex("6802000000 ff35f22f0000 ff25f42f0000".replace(" ", ""))
    lines = walk(lister, reader(code), AT)
    assert [one.flow for one in lines] == ["", "", THROUGH]
    assert lister.stack == [Value(NUMBER, 2), Value(CELL, AT + 11 + 0x2FF2)]
    assert lines[-1].target == AT + 17 + 0x2FF4


def test_a_retpoline_leads_through_what_its_register_holds() -> None:
    """LLD's, -z retpolineplt: mov slot, %r11; call +; mov %r11, (%rsp); ret."""
    lister = decoder("x86-64")
    code = bytes.fromhex("4c8b1df9 2f0000 e802000000 f390 4c891c24 c3".replace(" ", ""))
    lines = walk(lister, reader(code), AT)
    assert [one.flow for one in lines] == ["", CALL, "", THROUGH]
    assert lines[-1].target == AT + 7 + 0x2FF9


def test_code_that_may_lie_anywhere_finds_its_slot_on_i386() -> None:
    """__picsymbolstub: call +; pop %eax; mov d(%eax), %edx; jmp *%edx."""
    lister = decoder("i386")
    code = bytes.fromhex("e800000000 58 8b9000200000 ffe2".replace(" ", ""))
    lines = walk(lister, reader(code), AT)
    assert (lines[-1].flow, lines[-1].target) == (THROUGH, AT + 5 + 0x2000)
    lister.use_base(0x404000)
    line = lister.line(bytes.fromhex("ffa30c000000"), AT)
    assert (line.flow, line.target) == (THROUGH, 0x40400C)
    assert decoder("i386").line(bytes.fromhex("ffa30c000000"), AT).flow == LEAVE


def test_registers_and_stack_of_an_arm64_stub_helper() -> None:
    lister = decoder("aarch64")
    words = "50000018 02000014 45000000 31000090 31220091 f047bfa9 30000090 100240f9 00021fd6"
    code = bytes.fromhex(words.replace(" ", ""))
    lines = walk(lister, reader(code), AT)
    assert (lines[-1].flow, lines[-1].target) == (JUMP, AT + 12)
    lines = walk(lister, reader(code), AT + 12)
    assert (lines[-1].flow, lines[-1].target) == (THROUGH, 0x405000)
    assert lister.stack[::-1] == [Value(CELL, AT + 8), Value(NUMBER, 0x405008)]


def test_a_register_that_nobody_has_set_is_named() -> None:
    lister = decoder("aarch64")
    lister.line(bytes.fromhex("f07bbfa9"), AT)
    assert lister.stack[0] == Value(REGISTER, 0, "x30")


def test_who_calls_a_stub_or_a_slot_on_x86_64() -> None:
    stub, slot = AT + 0x100, AT + 0x2000
    code = bytearray(b"\x90" * 64)
    code[3:8] = b"\xe8" + (stub - (AT + 8)).to_bytes(4, "little", signed=True)
    code[10:15] = b"\xe9" + (stub - (AT + 15)).to_bytes(4, "little", signed=True)
    code[20:26] = b"\x0f\x84" + (stub - (AT + 26)).to_bytes(4, "little", signed=True)
    code[30:36] = b"\xff\x15" + (slot - (AT + 36)).to_bytes(4, "little", signed=True)
    code[40:46] = b"\xff\x25" + (slot - (AT + 46)).to_bytes(4, "little", signed=True)
    found = list(decoder("x86-64").calls(bytes(code), AT, {stub}, {slot}))
    assert [(one.vaddr - AT, one.flow) for one in found] == [
        (3, CALL),
        (10, JUMP),
        (20, JUMP),
        (30, "call-through"),
        (40, THROUGH),
    ]


def test_who_calls_a_stub_a_thunk_or_a_slot_on_arm64() -> None:
    words = "1f2003d5 3f000094 10000090 10020491 00021fd6 08000090 080940f9 00013fd6"
    code = bytes.fromhex(words.replace(" ", ""))
    lister = decoder("aarch64")
    stub, slot = AT + 0x100, AT + 0x10
    found = list(lister.calls(code, AT, {stub}, {slot}))
    assert [(one.vaddr - AT, one.start - AT, one.flow) for one in found] == [
        (4, 4, CALL),
        (28, 20, "call-through"),
    ]
    assert list(lister.thunks(code, AT, {stub})) == [(AT + 8, stub)]


@pytest.mark.parametrize(
    "words",
    [
        # adrp x22; add x22, x22, #0x3d8; ldr x8, [x22]; blr x8: of numpy's, another page's cell
        "16000090 d6620f91 c80240f9 00013fd6",
        # adrp x8; ldr x8, [x8]; ldr x8, [x8, #0x698]; blr x8
        "08000090 080140f9 084d43f9 00013fd6",
        # adrp x8; ldr x8, [x8]; bl +; blr x8
        "08000090 080140f9 01000094 00013fd6",
        # adrp x8; ldr x8, [x8]; ldp x0, x8, [sp]; blr x8
        "08000090 080140f9 e02340a9 00013fd6",
    ],
)
def test_a_register_that_was_written_again_leads_elsewhere(words: str) -> None:
    code = bytes.fromhex(words.replace(" ", ""))
    assert list(decoder("aarch64").calls(code, AT, set(), {AT})) == []
    straight = bytes.fromhex("08000090 080140f9 1f2003d5 00013fd6".replace(" ", ""))
    assert len(list(decoder("aarch64").calls(straight, AT, set(), {AT}))) == 1
