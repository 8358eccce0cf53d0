# SPDX-License-Identifier: Apache-2.0
"""Run the stubs of a Mach-O image under Unicorn: where a call through one arrives.

The image is laid out by its load commands alone. Every pointer that dyld fills when it loads an
image gets an address of its own, none of which exists; whoever arrives there has gone through
that pointer. Nothing here knows what a stub looks like.
"""

from __future__ import annotations

import struct
from importlib import import_module
from typing import Any, NamedTuple

_NOWHERE = 0x6A000000  # pointers that are filled: their index times 16 from here on
_NOWHERE_END = 0x6B000000
_STACK = 0x6C000000
_MOST = 64  # instructions

_POINTERS, _LAZY, _LITERAL, _STUBS = 6, 7, 5, 8


class Ran(NamedTuple):
    """What became of a call: the slot it went through, and the first two words on the stack.

    `selector` is the address of the pointer that was put into the second argument's register.
    """

    slot: int
    stack: tuple[int, int]
    selector: int | None
    registers: tuple[int, int]  # PowerPC: r11 and r12, which are how dyld is told the slot


class Section(NamedTuple):
    """A section as the load commands have it."""

    name: str
    addr: int
    size: int
    offset: int
    kind: int


class Runner:
    """One thin image, ready to be called into."""

    def __init__(self, data: bytes) -> None:
        self._order = "<" if data[:1] in {b"\xce", b"\xcf"} else ">"
        wide = data[0 if self._order == "<" else 3] == 0xCF
        self.word = 8 if wide else 4
        self._cpu, self._subtype = struct.unpack_from(self._order + "II", data, 4)
        self.sections: list[Section] = []
        segments = self._segments(data, wide=wide)
        self._uc = self._machine()
        for addr, size, offset, stored in segments:
            start, end = addr & ~0xFFF, -(-(addr + size) // 0x4000) * 0x4000
            self._map(start, end)
            self._uc.mem_write(addr, data[offset : offset + stored])
        self._map(_STACK, _STACK + 0x10000)
        self.slots: dict[int, int] = {}  # where a filled pointer leads -> its address
        code = [one for one in self.sections if one.name == "__stub_helper" or one.kind == _STUBS]
        for one in self.sections:
            if one.kind not in {_POINTERS, _LAZY, _LITERAL} and one.name != "__dyld":
                continue
            for addr in range(one.addr, one.addr + one.size, self.word):
                first = int.from_bytes(
                    self._uc.mem_read(addr, self.word), "little" if self._order == "<" else "big"
                )
                # On PowerPC all lead to one function. Else they lead to helpers, or into stubs;
                # those that lead to a function of the image's own are not lazy.
                lazy = one.kind == _LAZY and (
                    self._cpu & 0xFF == 18
                    or any(section.addr <= first < section.addr + section.size for section in code)
                )
                if not lazy:
                    self.fill(addr)

    def _segments(self, data: bytes, *, wide: bool) -> list[tuple[int, int, int, int]]:
        count = struct.unpack_from(self._order + "I", data, 16)[0]
        at, found = 32 if wide else 28, []
        for _ in range(count):
            command, size = struct.unpack_from(self._order + "II", data, at)
            if command == (0x19 if wide else 1):
                place = struct.unpack_from(
                    self._order + ("QQQQ" if wide else "IIII"), data, at + 24
                )
                if place[3]:
                    found.append(place)
                head, step = (72, 80) if wide else (56, 68)
                for row in range(at + head, at + size, step):
                    name = data[row : row + 16].rstrip(b"\0").decode()
                    codes = self._order + ("QQIIIIIII" if wide else "IIIIIIIII")
                    addr, length, offset, _, _, _, flags, *_ = struct.unpack_from(
                        codes, data, row + 32
                    )
                    self.sections.append(Section(name, addr, length, offset, flags & 0xFF))
            at += size
        return found

    def _machine(self) -> Any:
        u = import_module("unicorn")
        if self._cpu & 0xFF == 7:
            mode = u.UC_MODE_64 if self.word == 8 else u.UC_MODE_32
            return u.Uc(u.UC_ARCH_X86, mode)
        if self._cpu & 0xFF == 18:
            mode = u.UC_MODE_PPC64 if self.word == 8 else u.UC_MODE_PPC32
            return u.Uc(u.UC_ARCH_PPC, mode | u.UC_MODE_BIG_ENDIAN)
        if self._cpu == 12:
            return u.Uc(u.UC_ARCH_ARM, u.UC_MODE_ARM)
        machine = u.Uc(u.UC_ARCH_ARM64, u.UC_MODE_ARM)
        machine.ctl_set_cpu_model(import_module("unicorn.arm64_const").UC_CPU_ARM64_MAX)
        return machine

    def _map(self, start: int, end: int) -> None:
        for first, last, _ in sorted(self._uc.mem_regions()):
            if first <= start <= last:
                start = last + 1
        if start < end:
            self._uc.mem_map(start, end - start)

    def fill(self, addr: int) -> None:
        """Bind the pointer at `addr`, as dyld does before or after the first call."""
        there = _NOWHERE + 16 * len(self.slots)
        self.slots[there] = addr
        codes = self._order + ("Q" if self.word == 8 else "I")
        self._uc.mem_write(addr, struct.pack(codes, there))

    @property
    def filled(self) -> set[int]:
        """The addresses of the pointers that are bound."""
        return set(self.slots.values())

    def call(self, stub: int) -> Ran:
        """Call a stub; return where that led. AssertionError where it leads nowhere known."""
        u = import_module("unicorn")
        names = {
            7: ("ESP", "EIP", None) if self.word == 4 else ("RSP", "RIP", "RSI"),
            12: ("SP", "PC", None if self._cpu == 12 else "X1"),
            18: ("1", "PC", None),
        }[self._cpu & 0xFF]
        module = {7: "x86", 12: "arm64", 18: "ppc"}[self._cpu & 0xFF]
        module = "arm" if self._cpu == 12 else module
        const = import_module(f"unicorn.{module}_const")
        prefix = f"UC_{module.upper()}_REG_"
        stack, pc, second = (name and getattr(const, prefix + name) for name in names)
        top = _STACK + 0x8000
        self._uc.reg_write(stack, top)
        if second is not None:
            self._uc.reg_write(second, 0)
        self._uc.mem_write(top - 64, bytes(64))
        try:
            self._uc.emu_start(stub, 0, count=_MOST)
        except u.UcError:
            pass  # it has arrived where nothing is
        there = self._uc.reg_read(pc)
        assert there in self.slots, f"the stub at {stub:#x} leads to {there:#x}"
        words = self._uc.mem_read(self._uc.reg_read(stack), 2 * self.word)
        codes = self._order + ("QQ" if self.word == 8 else "II")
        chosen = self._uc.reg_read(second) if second is not None else 0
        rest = (0, 0)
        if module == "ppc":
            rest = tuple(self._uc.reg_read(const.UC_PPC_REG_0 + n) for n in (11, 12))
        return Ran(self.slots[there], struct.unpack(codes, words), self.slots.get(chosen), rest)
