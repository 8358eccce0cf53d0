# SPDX-License-Identifier: Apache-2.0
"""Stubs and helpers: instructions as assemblers write them, at addresses that can be counted."""

from __future__ import annotations

import pytest

from soscope.binfmt.macho.stubs import StubHelper, StubWay, decoder
from soscope.model import arch as machines

PC = 0x1000

WAYS = {
    # jmpq *0x1ffa(%rip)
    "x86_64": (machines.CPU_X86_64, "ff25fa1f0000", StubWay(6, slot=0x3000)),
    # movq 0xff9(%rip), %rsi; jmpq *0x1ff3(%rip)
    "x86_64 objc": (
        machines.CPU_X86_64,
        "488b35f90f0000 ff25f31f0000",
        StubWay(13, slot=0x3000, selector_at=0x2000),
    ),
    # jmpl *0x3000
    "i386": (machines.CPU_I386, "ff2500300000", StubWay(6, slot=0x3000)),
    # jmpl *0x3000; pushl $0x3000; jmp
    "i386 with its helper": (
        machines.CPU_I386,
        "ff2500300000 6800300000 e9f00f0000",
        StubWay(16, slot=0x3000),
    ),
    # calll 0x1005; popl %eax; movl 0x1ffb(%eax), %edx; jmpl *%edx; leal 0x1ffb(%eax), %eax; …
    "i386 picsymbol": (
        machines.CPU_I386,
        "e800000000 58 8b90fb1f0000 ffe2 8d80fb1f0000 50 e9e60f0000",
        StubWay(26, slot=0x3000, relative=True),
    ),
    # adrp x16, 0x3000; ldr x16, [x16, #8]; br x16
    "arm64": (machines.CPU_ARM64, "100000d0 100640f9 00021fd6", StubWay(12, slot=0x3008)),
    # nop; ldr x16, 0x3004; br x16
    "arm64 near": (machines.CPU_ARM64, "1f2003d5 10000158 00021fd6", StubWay(12, slot=0x3004)),
    # adrp x17, 0x3000; add x17, x17, #16; ldr x16, [x17]; braa x16, x17
    "arm64e": (
        machines.CPU_ARM64,
        "110000d0 31420091 300240f9 110a1fd7",
        StubWay(16, slot=0x3010, signed=True),
    ),
    # adrp x16, 0x3000; ldr w16, [x16, #4]; br x16
    "arm64_32": (machines.CPU_ARM64_32, "100000d0 100640b9 00021fd6", StubWay(12, slot=0x3004)),
    # adrp x1, 0x2000; ldr x1, [x1, #8]; adrp x16, 0x3000; ldr x16, [x16]; br x16
    "arm64 objc": (
        machines.CPU_ARM64,
        "010000b0 210440f9 100000d0 100240f9 00021fd6",
        StubWay(20, slot=0x3000, selector_at=0x2008),
    ),
    # adrp x1, 0x2000; ldr x1, [x1, #8]; b 0x2000
    "arm64 objc, small": (
        machines.CPU_ARM64,
        "010000b0 210440f9 fe030014",
        StubWay(12, target=0x2000, selector_at=0x2008),
    ),
    # lis r11, 1; lwzu r12, -0x4000(r11); mtctr r12; bctr
    "ppc": (machines.CPU_PPC, "3d600001 858bc000 7d8903a6 4e800420", StubWay(16, slot=0xC000)),
    # mflr r0; bcl 20, 31, 0x1008; mflr r11; addis r11, r11, 1; mtlr r0; lwzu r12, -8(r11); …
    "ppc pic": (
        machines.CPU_PPC,
        "7c0802a6 429f0005 7d6802a6 3d6b0001 7c0803a6 858bfff8 7d8903a6 4e800420",
        StubWay(32, slot=0x11000, relative=True),
    ),
    # the same with ldu r12, -8(r11)
    "ppc64 pic": (
        machines.CPU_PPC64,
        "7c0802a6 429f0005 7d6802a6 3d6b0001 7c0803a6 e98bfff9 7d8903a6 4e800420",
        StubWay(32, slot=0x11000, relative=True),
    ),
    # lis r11, 1; lwz r12, -0x4000(r11); mtctr r12; addi r11, r11, -0x4000; bctr
    "ppc, old": (
        machines.CPU_PPC,
        "3d600001 818bc000 7d8903a6 396bc000 4e800420",
        StubWay(20, slot=0xC000),
    ),
    # ldr ip, [pc, #4]; add ip, pc, ip; ldr pc, [ip]; .long 0x1ff4
    "arm pic": (
        machines.CPU_ARM,
        "04c09fe5 0cc08fe0 00f09ce5 f41f0000",
        StubWay(12, slot=0x3000, relative=True),
    ),
    # ldr ip, [pc]; ldr pc, [ip]; .long 0x3000
    "arm": (machines.CPU_ARM, "00c09fe5 00f09ce5 00300000", StubWay(8, slot=0x3000)),
    # movw ip, #0x1ff0; movt ip, #0; add ip, pc, ip; ldr pc, [ip]
    "arm movw": (
        machines.CPU_ARM,
        "f0cf01e3 00c040e3 0cc08fe0 00f09ce5",
        StubWay(16, slot=0x3000, relative=True),
    ),
}

HELPERS = {
    # pushq $0x17; jmp 0x900
    "x86_64": (machines.CPU_X86_64, "6817000000 e9f6f8ffff", StubHelper(PC, 10, 0x17, None, 0x900)),
    # leaq 0x1ff9(%rip), %r11; jmp 0x900
    "x86_64 before LC_DYLD_INFO": (
        machines.CPU_X86_64,
        "4c8d1df91f0000 e9f4f8ffff",
        StubHelper(PC, 12, None, 0x3000, 0x900),
    ),
    # ldr w16, 0x1008; b 0x900; .long 0x17
    "arm64": (
        machines.CPU_ARM64,
        "50000018 3ffeff17 17000000",
        StubHelper(PC, 12, 0x17, None, 0x900),
    ),
    # ldr ip, [pc]; b 0x900; .long 0x17
    "arm": (machines.CPU_ARM, "00c09fe5 3dfeffea 17000000", StubHelper(PC, 12, 0x17, None, 0x900)),
}

# What all helpers share must not be taken for one of them.
SHARED = {
    # leaq cache(%rip), %r11; pushq %r11; jmpq *binder(%rip); nop
    "x86_64": (machines.CPU_X86_64, "4c8d1d00100000 4153 ff2500100000 90"),
    # pushl $cache; jmpl *binder
    "i386": (machines.CPU_I386, "6800200000 ff2500300000"),
    # adrp x17; add x17, x17; stp x16, x17, [sp, #-16]!; adrp x16; ldr x16, [x16]; br x16
    "arm64": (machines.CPU_ARM64, "110000b0 31020091 f047bfa9 100000b0 100240f9 00021fd6"),
}


def code(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


@pytest.mark.parametrize("name", WAYS)
def test_a_stub_leads_through_its_slot(name: str) -> None:
    cpu, text, way = WAYS[name]
    found = decoder(cpu)
    assert found is not None
    assert found.stub(code(text), 0, PC) == way
    assert found.stub(b"\0" * 8 + code(text), 8, PC) == way


@pytest.mark.parametrize("name", WAYS)
def test_half_a_stub_is_none(name: str) -> None:
    cpu, text, _ = WAYS[name]
    found = decoder(cpu)
    assert found is not None
    whole = code(text)
    for length in range(5):
        assert found.stub(whole[:length], 0, PC) is None


@pytest.mark.parametrize("name", HELPERS)
def test_a_helper_hands_over_its_record(name: str) -> None:
    cpu, text, helper = HELPERS[name]
    found = decoder(cpu)
    assert found is not None
    assert found.helper is not None
    assert found.helper(code(text), 0, PC) == helper
    for length in range(len(code(text))):
        assert found.helper(code(text)[:length], 0, PC) is None


@pytest.mark.parametrize("name", SHARED)
def test_what_helpers_share_is_none_of_them(name: str) -> None:
    cpu, text = SHARED[name]
    found = decoder(cpu)
    assert found is not None
    assert found.helper is not None
    assert found.helper(code(text), 0, PC) is None


def test_the_second_half_of_a_stub_of_i386_is_its_helper() -> None:
    text = "e800000000 58 8b90fb1f0000 ffe2 8d80fb1f0000 50 e9e60f0000"
    found = decoder(machines.CPU_I386)
    assert found is not None
    assert found.helper is not None
    assert found.helper(code(text), 14, PC + 14) == StubHelper(PC + 14, 12, None, 0x3000, 0x2000)


def test_an_unknown_processor_has_no_decoder() -> None:
    assert decoder(14) is None
