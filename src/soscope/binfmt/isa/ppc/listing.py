# SPDX-License-Identifier: Apache-2.0
"""Listing of PowerPC, 32 and 64 bits, both byte orders, ELF and Mach-O: stubs and glink.

Power ISA, book I. It covers the stubs of GNU ld, LLD and Apple's linkers. Position-independent
stubs count from the TOC pointer, r2; on 32 bits from r30.
"""

from __future__ import annotations

from soscope.binfmt.listing import (
    CALL,
    CELL,
    JUMP,
    LEAVE,
    NUMBER,
    ON,
    THROUGH,
    UNKNOWN,
    CallInstruction,
    Line,
    Lister,
    Value,
    spots,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_BLOCK = 1 << 16
_LOADS = {32: "lwz", 33: "lwzu"}
_STORES = {36: "stw", 37: "stwu"}
_DOUBLE_LOADS = {0: "ld", 1: "ldu", 2: "lwa"}
_DOUBLE_STORES = {0: "std", 1: "stdu"}
_LINK = 1  # the lowest bit of a branch: it is a call

Found = tuple[str, str, int | None, int | None]


class Ppc(Lister):
    """All instructions are words, except prefixed ones, which are not decoded."""

    longest = 4
    step = 4

    def use_base(self, base: int) -> None:
        """Set the TOC pointer, or the value of r30 in 32-bit code."""
        self.registers["r2" if self.bits == 64 else "r30"] = Value(NUMBER, base)

    def line(self, code: bytes, vaddr: int) -> Line:
        """Decode one instruction."""
        if len(code) < 4:
            return self.unknown(code, vaddr)
        code = code[:4]
        word = int.from_bytes(code, "little" if self.order == "<" else "big")
        decode: Callable[[int, int], Found | None] | None = {
            14: self._sum,
            15: self._sum,
            18: self._branch,
            24: self._nop,
            30: self._shift,
            31: self._registers,
            16: self._here,
            19: self._leave,
            **dict.fromkeys((*_LOADS, *_STORES, 58, 62), self._memory),
        }.get(word >> 26)
        decoded = None if decode is None else decode(word, vaddr)
        if decoded is None:
            return Line(vaddr, code, f".long {word:#x}", LEAVE, known=False)
        return Line(vaddr, code, *decoded)

    def _known(self, name: str) -> int | None:
        value = self.get(name)
        return value.number if value.kind == NUMBER else None

    def _keep(self, name: str, number: int | None) -> None:
        held = Value(UNKNOWN) if number is None else Value(NUMBER, number & self.mask)
        self.registers[name] = held

    def _sum(self, word: int, _: int) -> Found:
        is_high = bool(word >> 26 & 1)
        target, base, number = f"r{word >> 21 & 31}", word >> 16 & 31, _signed(word & 0xFFFF, 16)
        value = self._known(f"r{base}") if base else 0
        self._keep(target, None if value is None else value + (number << 16 if is_high else number))
        if not base:
            return f"{'lis' if is_high else 'li'} {target},{number}", ON, None, None
        return f"{'addis' if is_high else 'addi'} {target},r{base},{number}", ON, None, None

    def _memory(self, word: int, _: int) -> Found | None:
        kind, register, base = word >> 26, f"r{word >> 21 & 31}", word >> 16 & 31
        is_long, offset = kind in (58, 62), _signed(word & 0xFFFF, 16)
        if is_long:
            names = _DOUBLE_LOADS if kind == 58 else _DOUBLE_STORES
            name, offset = names.get(word & 3, ""), offset & ~3
        else:
            name = _LOADS.get(kind) or _STORES[kind]
        if not name:
            return None
        text = f"{name} {register},{offset}(r{base})"
        if name.startswith("st"):
            return text, ON, None, None
        value = self._known(f"r{base}") if base else 0
        if value is None:
            self.registers[register] = Value(UNKNOWN)
            return text, ON, None, None
        place = value + offset & self.mask
        literal = self.literal(place, 8 if is_long else 4)
        self.registers[register] = Value(CELL, place) if literal is None else Value(NUMBER, literal)
        if name.endswith("u"):
            self._keep(f"r{base}", place)
        return text, ON, None, place

    def _registers(self, word: int, _: int) -> Found | None:
        first, two, three = (f"r{word >> shift & 31}" for shift in (21, 16, 11))
        special = {8: "lr", 9: "ctr"}.get(word >> 16 & 31, "")
        kind = word & 0x7FF
        if kind == 339 << 1 and special and not word >> 11 & 31:
            self.registers[first] = self.get(special)
            return f"mf{special} {first}", ON, None, None
        if kind == 467 << 1 and special and not word >> 11 & 31:
            self.registers[special] = self.get(first)
            return f"mt{special} {first}", ON, None, None
        left, right = self._known(two), self._known(three)
        is_known = left is not None and right is not None
        if kind == 266 << 1:
            self._keep(first, (left or 0) + (right or 0) if is_known else None)
            return f"add {first},{two},{three}", ON, None, None
        if kind == 40 << 1:
            self._keep(first, (right or 0) - (left or 0) if is_known else None)
            return f"subf {first},{two},{three}", ON, None, None
        if kind == 444 << 1 and first == three:
            self.registers[two] = self.get(first)
            return f"mr {two},{first}", ON, None, None
        return None

    def _shift(self, word: int, _: int) -> Found | None:
        turn, first = word >> 11 & 31 | (word & 2) << 4, word >> 6 & 31 | word & 32
        if word & 0x1D or turn != 64 - first:  # only then rldicl is srdi
            return None
        target, value = f"r{word >> 16 & 31}", self._known(f"r{word >> 21 & 31}")
        self._keep(target, None if value is None else value >> first)
        return f"srdi {target},r{word >> 21 & 31},{first}", ON, None, None

    def _nop(self, word: int, _: int) -> Found | None:
        return ("nop", ON, None, None) if word == 0x60000000 else None

    def _here(self, word: int, vaddr: int) -> Found | None:
        if word != 0x429F0005:
            return None
        self.registers["lr"] = Value(NUMBER, vaddr + 4)
        return f"bcl 20,4*cr7+so,{vaddr + 4:#x}", ON, None, None

    def _branch(self, word: int, vaddr: int) -> Found:
        base = 0 if word & 2 else vaddr
        target = base + _signed(word & 0x3FFFFFC, 26) & self.mask
        name = ("b", "bl", "ba", "bla")[word & 3]
        return f"{name} {target:#x}", CALL if word & _LINK else JUMP, target, None

    def _leave(self, word: int, _: int) -> Found | None:
        if word == 0x4E800020:
            return "blr", LEAVE, None, None
        if word != 0x4E800420:
            return None
        value = self.get("ctr")
        flow = {CELL: THROUGH, NUMBER: JUMP}.get(value.kind, LEAVE)
        return "bctr", flow, value.number if flow != LEAVE else None, None

    # ---- callers ----

    def calls(
        self, code: bytes, vaddr: int, stubs: Collection[int], slots: Collection[int]
    ) -> Iterator[CallInstruction]:
        """Yield each bl and b to a stub; direct calls through slots are not recognised."""
        skip = 2 if self.order == "<" else 0  # to the upper half of a word
        for target in stubs:
            for block in range(0, len(code), _BLOCK):
                distance = target - vaddr - block
                for near in {distance >> 16 & 0x3FF, distance - _BLOCK >> 16 & 0x3FF}:
                    high = (0x4800 | near).to_bytes(2, "little" if skip else "big")
                    for at in spots(code, high, block, min(block + _BLOCK + 4, len(code))):
                        yield from self._at(code, vaddr, at - skip, target)

    def _at(self, code: bytes, vaddr: int, at: int, target: int) -> Iterator[CallInstruction]:
        if at < 0 or vaddr + at & 3:
            return
        word = int.from_bytes(code[at : at + 4], "little" if self.order == "<" else "big")
        if not word & 2 and vaddr + at + _signed(word & 0x3FFFFFC, 26) == target:
            flow = CALL if word & _LINK else JUMP
            yield CallInstruction(vaddr + at, 4, flow, target, vaddr + at)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


LISTER = Ppc
