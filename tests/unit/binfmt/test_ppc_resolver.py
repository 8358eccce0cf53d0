# SPDX-License-Identifier: Apache-2.0
"""The way of unbound slots on PowerPC, by code of GNU ld's and glibc's."""

from __future__ import annotations

from soscope.binfmt.isa.ppc.stubs import end_of_resolver, way_on

NOP, BCTR = "60000000", "4e800420"


def test_way_on() -> None:
    assert way_on(bytes.fromhex("48000040"), ">") == 0x40
    assert way_on(bytes.fromhex("40000048"), "<") == 0x40
    assert way_on(bytes.fromhex("4bfffff0"), ">") == -0x10
    assert way_on(bytes.fromhex(NOP * 3 + "4bffffe0"), ">") == 12 - 0x20
    assert way_on(bytes.fromhex(NOP * 3 + "3d6bc000"), ">") == 12  # what others branch to
    assert way_on(bytes.fromhex("38000001" + "4bffffe0"), ">") is None  # it gives its number
    assert way_on(bytes.fromhex(NOP * 3), ">") is None


def test_end_of_resolver() -> None:
    assert end_of_resolver(bytes.fromhex(NOP * 5 + BCTR + NOP), ">") == 20
    assert end_of_resolver(bytes.fromhex(NOP * 200 + BCTR), ">") is None
