# SPDX-License-Identifier: Apache-2.0
"""x86-64: what may be replaced, and errno's place, from the code that compilers make."""

from __future__ import annotations

import pytest

from soscope.entry.isa import arch

AT = 0x7F00_0000_1000
NOPS = bytes.fromhex("66662e0f1f8400000000000f1f4000")


@pytest.mark.parametrize(
    ("code", "offset"),
    [
        # glibc: mov off(%rip),%rax; add %fs:0,%rax; ret
        ("488b05 00010000 6448030425 00000000 c3", -128),
        # the same, behind endbr64
        ("f30f1efa 488b05 fc000000 6448030425 00000000 c3", -128),
        # mov %fs:0,%rax; add off(%rip),%rax; ret
        ("64488b0425 00000000 480305 f7000000 c3", -128),
        ("f30f1efa 64488b0425 00000000 480305 f3000000 c3", -128),
        # initial exec turned into local exec
        ("48c7c0 80ffffff 6448030425 00000000 c3", -128),
        # musl: mov %fs:0,%rax; add $52,%rax; ret
        ("64488b0425 00000000 4883c034 c3", 52),
        ("f30f1efa 64488b0425 00000000 4883c034 c3", 52),
        ("64488b0425 00000000 488d4034 c3", 52),
        ("64488b0425 00000000 4805 90000000 c3", 144),
        ("64488b0425 00000000 488d80 90000000 c3", 144),
        # something else
        ("e9 00000000", None),
        ("64488b0425 00000000 c3", None),
        ("488b05 00010000 c3", None),
        ("64488b0425 00000000 4883c034 90", None),
        ("", None),
    ],
)
def test_errno_is_found_in_the_code(code: str, offset: int | None) -> None:
    def word(addr: int) -> int:
        assert addr == AT + 0x107
        return -128 & 0xFFFF_FFFF_FFFF_FFFF

    assert arch.errno_offset(bytes.fromhex(code), AT, word) == offset


@pytest.mark.parametrize(
    ("code", "is_empty"),
    [("c3", True), ("f30f1efac3", True), ("f30f1efa90c3", False), ("cc", False), ("", False)],
)
def test_only_an_empty_function_may_be_replaced(code: str, is_empty: bool) -> None:
    assert arch.is_empty_function(bytes.fromhex(code)) is is_empty


@pytest.mark.parametrize(
    "padding",
    [
        NOPS,
        b"\x90" * 15,
        b"\xcc" * 15,
        b"\x66\x90" * 8,
        bytes.fromhex("0f1f00 0f1f4000 0f1f440000 0f1f8000000000"),
        bytes.fromhex("662e0f1f840000000000 90"),
    ],
)
def test_a_jump_takes_the_functions_place_and_the_padding(padding: bytes) -> None:
    old = b"\xc3" + padding
    assert arch.jump(AT, AT + 0x105, old) == b"\xe9\x00\x01\x00\x00" + old[5:8]
    assert arch.jump(AT, AT - 0xFB, old) == b"\xe9\x00\xff\xff\xff" + old[5:8]


def test_the_function_with_endbr64_is_as_long_as_a_jump() -> None:
    old = b"\xf3\x0f\x1e\xfa\xc3\x55\x48\x89"
    assert arch.jump(AT, AT + 0x105, old) == b"\xe9\x00\x01\x00\x00\x55\x48\x89"


@pytest.mark.parametrize(
    "old",
    [
        b"\xc3\x55\x48\x89\xe5\x90\x90\x90",  # another function follows at once
        b"\xc3\x90\x90\x55\x48\x89\xe5\x90",
        b"\xc3\x0f\x1f",  # cut
        b"\xc3\x0f\x1f\x99\x90\x90\x90\x90",  # no padding that is known
        b"\xcc" + NOPS,  # somebody's breakpoint
    ],
)
def test_what_follows_the_function_is_never_overwritten(old: bytes) -> None:
    assert arch.jump(AT, AT + 0x105, old) is None


def test_a_jump_has_to_reach_and_to_be_one_word() -> None:
    old = b"\xc3" + NOPS
    assert arch.jump(AT, AT + (1 << 31) + 4, old) is not None
    assert arch.jump(AT, AT + (1 << 31) + 5, old) is None
    assert arch.jump(AT, AT - (1 << 31) + 5, old) is not None
    assert arch.jump(AT, AT - (1 << 31) + 4, old) is None
    assert arch.jump(AT + 4, AT + 0x105, old) is None


def test_registers() -> None:
    registers = arch.Registers()
    registers.rsp = 0x7FFF_0000_1238
    registers.eflags = 0x400 | 0x200
    copy = registers.copy()
    stack = arch.scratch(registers, 72)
    assert stack % 64 == 0
    assert stack + 72 <= 0x7FFF_0000_1238 - 128
    arch.set_call(copy, 0x1000, 0x2000, stack - 8)
    assert (copy.pc, copy.rdi, copy.sp, copy.eflags) == (0x1000, 0x2000, stack - 8, 0x200)
    assert copy.orig_rax == 2**64 - 1
    arch.set_syscall(copy, 0x3000, 9, (1, -1))
    assert (copy.rip, copy.rax, copy.rdi, copy.rsi) == (0x3000, 9, 1, 2**64 - 1)
    copy.rax = 2**64 - 22
    assert copy.result == -22
    arch.set_return(registers, 0x4000)
    assert (registers.pc, registers.sp) == (0x4000, 0x7FFF_0000_1240)


def test_what_a_handler_has_interrupted_is_read_from_its_frame() -> None:
    saved = list(range(100, 118))  # r8 ... rsp, rip, flags
    frame = [0, 7, *saved, 0x002B_0000_0000_0033, 9]
    stack = b"".join(word.to_bytes(8, "little") for word in frame)
    assert arch.interrupted(stack) == [(116, 115, saved[:-1])]
    assert arch.interrupted(stack[-40:])[0][:2] == (116, 115)
    assert arch.interrupted(stack[-24:]) == []
    assert arch.interrupted_stacks(stack) == [115 - 128]


def test_branches_out_of_a_function_are_found() -> None:
    code = bytes.fromhex("90 e8 00010000 0f84 00020000 e9 fbfeffff eb 10 c3")
    assert {AT + 0x106, AT + 0x20C, AT + 0x11 - 0x105} <= arch.branch_targets(code, AT)
    assert arch.branch_targets(bytes.fromhex("e8 000000"), AT) == set()
