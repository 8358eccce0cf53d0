# SPDX-License-Identifier: Apache-2.0
"""Which instruction of a stub all its calls run, of stubs as linkers make them."""

from __future__ import annotations

import pytest

from soscope.binfmt.isa import part
from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub
from soscope.model.arch import Arch, arch_named

# (architecture, the stub, its call site); the instruction is the one that objdump shows there
STUBS = [
    ("aarch64", "5f2403d5 f0000090 11fe47f9 10e23f91 20021fd6", SiteInStub(16, JUMP)),  # bti c
    ("aarch64", "f0000090 11fe47f9 10e23f91 9f2103d5 20021fd6", SiteInStub(16, JUMP)),  # autia1716
    ("aarch64", "1f2003d5 1f2003d5", SiteInStub(0, PASS)),
    ("arm", "00c68fe2 10ca8ce2 80fcbce5", SiteInStub(8, JUMP)),
    ("arm", "7847c046 00c68fe2 10ca8ce2 80fcbce5", SiteInStub(12, JUMP)),  # bx pc
    ("arm", "04c09fe5 0fc08ce0 00f09ce5 00000100", SiteInStub(8, JUMP)),
    ("arm", "40f2401c c0f2010c fc44 dcf800f0", SiteInStub(10, JUMP)),  # Thumb's
    ("riscv64", "172e0000 033e0e8d 67030e00 13000000", SiteInStub(8, JUMP)),
    ("s390x", "c01000001234 e31010000004 07f1 0d10 e310100c0014", SiteInStub(12, JUMP, 2)),
    ("x86-64", "f30f1efa ff25c82f0000 660f1f440000", SiteInStub(4, JUMP)),
    ("x86-64", "f2ff25c82f0000 6800000000 f2e9e0ffffff", SiteInStub(0, JUMP)),
    ("i386", "ffa30c000000 6800000000 e9e0ffffff", SiteInStub(0, JUMP)),
    ("i386", "f30f1efb ff250c00ce56", SiteInStub(4, JUMP)),
    ("ppc", "3d601002 816b0010 7d6903a6 4e800420", SiteInStub(8, JUMP)),
    ("ppc", "817e8144 7d6903a6 4e800420 60000000", SiteInStub(4, JUMP, 4, "r30", -0x7EBC)),
    ("ppc", "3d7effff 816b8144 7d6903a6 4e800420", SiteInStub(8, JUMP, 4, "r30", -0x17EBC)),
    ("mips", "3c0f0041 8df90820 03200008 25f80820", SiteInStub(8, PASS)),  # jr $t9
    # leaves by one of two branches
    (
        "ppc64",
        "f8410028 e9828060 7d8903a6 e8428068 28220000 4ce20420 48000000",
        SiteInStub(8, JUMP),
    ),
    ("ppc64le", "180041f8 608082e9 a603897d 2004804e", SiteInStub(8, JUMP)),
    # pld, by the distance from itself
    ("ppc64le", "01001004 50f280e5 a603897d 2004804e", SiteInStub(8, JUMP)),
    # calls, as it has kept the return address
    ("ppc64le", "180041f8 608082e9 a603897d 2104804e 180041e8", SiteInStub(8, PASS)),
]


@pytest.mark.parametrize(("name", "code", "expected"), STUBS)
def test_place(name: str, code: str, expected: SiteInStub) -> None:
    arch = arch_named(name)
    assert isinstance(arch, Arch)
    known = part(arch, "sites")
    assert known is not None
    order = ">" if name in ("mips", "ppc", "ppc64") else "<"
    assert known.place(bytes.fromhex(code), order) == expected
