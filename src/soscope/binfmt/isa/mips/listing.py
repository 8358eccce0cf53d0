# SPDX-License-Identifier: Apache-2.0
"""Listing of MIPS, 32 and 64 bits, both byte orders: .MIPS.stubs and calls through the GOT.

MIPS Architecture for Programmers, volume II; System V ABI, MIPS supplement. A jump takes effect
after the next instruction, so the line of that instruction shows the jump's flow.
"""

from __future__ import annotations

import struct

from soscope.binfmt.listing import (
    CALL,
    CALL_THROUGH,
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
    from collections.abc import Collection, Iterator

_OLD = ("t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7")  # names of registers 8 to 15 in o32
_NEW = ("a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3")
_JUMP_T9, _CALL_T9 = 0x03200008, 0x0320F809
_NEAR = 8  # instructions from the load of a slot to the call, at most

Found = tuple[str, int | None]  # text, the address it refers to


class Mips(Lister):
    """All instructions are 32-bit words."""

    longest = 4
    step = 4

    def __init__(self, bits: int, order: str, base: int = 0) -> None:
        """Decode for the ABI o32, or n64 if addresses have 64 bits."""
        middle = _OLD if bits == 32 else _NEW
        self._names = (
            *("zero", "at", "v0", "v1", "a0", "a1", "a2", "a3", *middle),
            *(f"s{number}" for number in range(8)),
            *("t8", "t9", "k0", "k1", "gp", "sp", "s8", "ra"),
        )
        self._jump: tuple[str, int | None] | None = None
        super().__init__(bits, order, base)

    def use_base(self, base: int) -> None:
        """Set the value of GP."""
        self.registers["gp"] = Value(NUMBER, base)

    def line(self, code: bytes, vaddr: int) -> Line:
        """Decode one instruction."""
        if len(code) < 4:
            return self.unknown(code, vaddr)
        code = code[:4]
        (word,) = struct.unpack(self.order + "I", code)
        jump, self._jump = self._jump, None
        decoded = self._special(word, vaddr) if not word >> 26 else self._immediate(word)
        if decoded is None:
            return Line(vaddr, code, f".word {word:#010x}", LEAVE, known=False)
        text, refer = decoded
        flow, target = jump or (ON, None)
        return Line(vaddr, code, text, flow, target, refer)

    def _special(self, word: int, vaddr: int) -> Found | None:
        source, other, target = (self._names[word >> shift & 31] for shift in (21, 16, 11))
        if not word:
            return "nop", None
        if word & 0xFC1FFFFF == 0x00000008 or word & 0xFC1F07FF == 0x00000009:
            value = self.get(source)
            flow = {CELL: THROUGH, NUMBER: JUMP}.get(value.kind, LEAVE)
            self._jump = flow, value.number if flow != LEAVE else None
            if word & 1:
                self.registers[target] = Value(NUMBER, vaddr + 8)
                return f"jalr {source}" if target == "ra" else f"jalr {target},{source}", None
            return f"jr {source}", None
        if word & 0x7FF in (0x25, 0x21, 0x2D) and other == "zero":
            self.registers[target] = self.get(source)
            return f"move {target},{source}", None
        if word & 0x7FF in (0x21, 0x2D):
            left, right = self.get(source), self.get(other)
            is_known = left.kind == right.kind == NUMBER
            total = Value(NUMBER, left.number + right.number & self.mask)
            self.registers[target] = total if is_known else Value(UNKNOWN)
            name = "addu" if word & 0x7FF == 0x21 else "daddu"
            return f"{name} {target},{source},{other}", None
        return None

    def _immediate(self, word: int) -> Found | None:
        kind = word >> 26
        base, target = self._names[word >> 21 & 31], self._names[word >> 16 & 31]
        number = _signed(word & 0xFFFF, 16)
        value = Value(NUMBER, 0) if base == "zero" else self.get(base)
        place = value.number + number & self.mask if value.kind == NUMBER else None
        if kind == 15:
            self.registers[target] = Value(NUMBER, number << 16 & self.mask)
            return f"lui {target},{word & 0xFFFF:#x}", None
        if kind in (9, 25):
            self.registers[target] = Value(UNKNOWN) if place is None else Value(NUMBER, place)
            if base == "zero" and kind == 9:
                return f"li {target},{number}", None
            return f"{'addiu' if kind == 9 else 'daddiu'} {target},{base},{number}", None
        if kind == 13 and base == "zero":
            self.registers[target] = Value(NUMBER, word & 0xFFFF)
            return f"li {target},{word & 0xFFFF:#x}", None
        if kind in (35, 55):
            self.registers[target] = Value(UNKNOWN) if place is None else Value(CELL, place)
            return f"{'lw' if kind == 35 else 'ld'} {target},{number}({base})", place
        return None

    # ---- callers ----

    def calls(
        self, code: bytes, vaddr: int, stubs: Collection[int], slots: Collection[int]
    ) -> Iterator[CallInstruction]:
        """Yield each jal to a stub, and each load of a slot into t9 with a jump through it."""
        count = len(code) - (-vaddr & 3) >> 2
        words = struct.unpack_from(f"{self.order}{count}I", code, -vaddr & 3) if count > 0 else ()
        first = vaddr + (-vaddr & 3)
        for index, word in enumerate(words if stubs else ()):
            at = first + 4 * index
            target = (at + 4 & ~0xFFFFFFF) | (word & 0x3FFFFFF) << 2
            if word >> 26 in (2, 3) and target in stubs:
                yield CallInstruction(at, 4, CALL if word >> 26 == 3 else JUMP, target, at)
        base = self.get("gp")
        for slot in slots if base.kind == NUMBER else ():
            distance = slot - base.number
            if not -0x8000 <= distance < 0x8000:
                continue
            field = (distance & 0xFFFF).to_bytes(2, "little" if self.order == "<" else "big")
            for spot in spots(code, field, 0, len(code)):
                index, rest = divmod(vaddr + spot - first, 4)
                if rest != (0 if self.order == "<" else 2) or index < 0:
                    continue
                through = self._through(words, index)
                if through is not None:
                    at, flow = through
                    yield CallInstruction(first + 4 * at, 4, flow, slot, first + 4 * index)

    @staticmethod
    def _through(words: tuple[int, ...], index: int) -> tuple[int, str] | None:
        if index >= len(words) or words[index] >> 16 & 0xFC1F not in (0x8C19, 0xDC19):
            return None  # lw or ld of t9
        for at in range(index + 1, min(index + _NEAR, len(words))):
            if words[at] in (_CALL_T9, _JUMP_T9):
                return at, CALL_THROUGH if words[at] == _CALL_T9 else THROUGH
            if _writes_t9(words[at]):
                return None
        return None


def _writes_t9(word: int) -> bool:
    if not word >> 26:
        return word >> 11 & 31 == 25
    return word >> 16 & 31 == 25 and word >> 26 in (*range(8, 16), 24, 25, *range(32, 40), 55)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


LISTER = Mips
