# SPDX-License-Identifier: Apache-2.0
"""Registers of x86-64 and i386, divided into parts that are saved or overwritten as a whole.

psABI AMD64 ("Parameter Passing") and psABI i386 ("Registers") for argument registers; the bits of
XCR0: Intel's SDM, volume 1, chapter 13.
"""

from __future__ import annotations

from soscope.inspect.audit import machine as m
from soscope.inspect.audit.machine import Group


def components(count: int) -> dict[int, frozenset[str]]:
    """Return bit of XCR0 -> its parts; `count` is the number of vector registers."""
    low = range(min(count, 16))
    components = {
        0: frozenset(("x87",)),
        1: frozenset(f"xmm{n}" for n in low),
        2: frozenset(f"ymm{n}" for n in low),
        3: frozenset(f"bnd{n}" for n in range(4)),
        5: frozenset(f"k{n}" for n in range(8)),
        6: frozenset(f"zmm{n}" for n in low),
        18: frozenset(("amx",)),
    }
    if count > 16:
        components[7] = frozenset(f"zmm{n}" for n in range(16, 32))
        components[19] = frozenset(f"r{n}" for n in range(16, 32))
    return components


def pieces(parts: frozenset[str]) -> list[tuple[str, int]]:
    """Return the parts of one register, each with its offset in memory."""
    places = {"x": 0, "y": 16, "z": 32}
    if len(parts) == 1:
        return [(part, 0) for part in parts]
    return [(part, places[part[0]]) for part in sorted(parts)]


def groups64() -> tuple[Group, ...]:
    """Return the argument registers of x86-64 in order, then other registers that may matter."""
    arguments = [Group(name, m.ARGUMENT, (name,)) for name in "rdi rsi rdx rcx r8 r9".split()]
    return (
        *arguments,
        Group("rax", m.VECTOR_COUNT, ("rax",)),
        Group("xmm0-7", m.ARGUMENT, tuple(f"xmm{n}" for n in range(8))),
        Group("ymm0-7 (high halves)", m.ARGUMENT, tuple(f"ymm{n}" for n in range(8)), "avx"),
        Group("zmm0-7 (high halves)", m.ARGUMENT, tuple(f"zmm{n}" for n in range(8)), "avx512"),
        Group("r10", m.STATIC_CHAIN, ("r10",)),
        Group("xmm8-15", m.EXTENDED, tuple(f"xmm{n}" for n in range(8, 16))),
        Group("k0-7", m.EXTENDED, tuple(f"k{n}" for n in range(8)), "avx512"),
        Group("zmm16-31", m.EXTENDED, tuple(f"zmm{n}" for n in range(16, 32)), "avx512"),
        Group("bnd0-3", m.EXTENDED, tuple(f"bnd{n}" for n in range(4)), "mpx"),
    )


def groups32() -> tuple[Group, ...]:
    """Return the argument registers of i386 in order."""
    arguments = [Group(name, m.REGPARM, (name,)) for name in "eax edx ecx".split()]
    return (
        *arguments,
        Group("xmm0-2", m.ARGUMENT, ("xmm0", "xmm1", "xmm2"), "sse"),
        Group("ymm0-2 (high halves)", m.ARGUMENT, ("ymm0", "ymm1", "ymm2"), "avx"),
        Group("zmm0-2 (high halves)", m.ARGUMENT, ("zmm0", "zmm1", "zmm2"), "avx512"),
        Group("mm0-2", m.ARGUMENT, ("x87",)),
    )
