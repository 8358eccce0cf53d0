# SPDX-License-Identifier: Apache-2.0
"""Listing of s390x: the instructions of stubs and PLT0.

z/Architecture Principles of Operation, and the ELF ABI supplement's "Procedure Linkage Table".
GNU ld, gold and mold make these stubs.
"""

from __future__ import annotations

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

_SIZES = (2, 4, 4, 6)  # size of an instruction, by its two highest bits
_BLOCK = 1 << 17  # bytes of code in which a distance in halfwords has at most two upper halves

Found = tuple[str, str, int | None, int | None]


class S390x(Lister):
    """Instructions have two, four or six bytes, big-endian.

    `registers` also has words that code stored in the frame, by their address: "48(%r15)".
    """

    longest = 6
    step = 2

    def line(self, code: bytes, vaddr: int) -> Line:
        """Decode one instruction."""
        size = _SIZES[code[0] >> 6] if code else 0
        code = code[:size]
        if not size or len(code) < size:
            return self.unknown(code, vaddr)
        number = int.from_bytes(code, "big")
        decode = {2: self._two, 6: self._six}.get(size)
        decoded = None if decode is None else decode(number, vaddr)
        if decoded is None:
            return self.unknown(code, vaddr)
        return Line(vaddr, code, *decoded)

    def _two(self, word: int, vaddr: int) -> Found | None:
        if word == 0x0700:
            return "nopr", ON, None, None
        left, right = word >> 4 & 15, word & 15
        if word >> 8 == 0x0D:  # basr with %r0 is no branch, but loads its own address
            self.registers[f"%r{left}"] = Value(NUMBER, vaddr + 2)
            flow = ON if not right else LEAVE
            return f"basr %r{left},%r{right}", flow, None, None
        if word >> 4 == 0x07F:
            value = self.get(f"%r{right}")
            flow = {CELL: THROUGH, NUMBER: JUMP}.get(value.kind, LEAVE)
            return f"br %r{right}", flow, value.number if flow != LEAVE else None, None
        return None

    def _six(self, word: int, vaddr: int) -> Found | None:
        kind, register = word >> 40 << 4 | word >> 32 & 15, f"%r{word >> 36 & 15}"
        near = vaddr + (_signed(word & 0xFFFFFFFF, 32) << 1) & self.mask
        if kind == 0xC00:
            self.registers[register] = Value(NUMBER, near)
            return f"larl {register},{near:#x}", ON, None, near
        if kind == 0xC01:
            number = _signed(word & 0xFFFFFFFF, 32)
            self.registers[register] = Value(NUMBER, number & self.mask)
            return f"lgfi {register},{number}", ON, None, None
        if kind == 0xC04 and register == "%r15":
            return f"jg {near:#x}", JUMP, near, None
        if kind == 0xC05:
            return f"brasl {register},{near:#x}", CALL, near, None
        if word >> 40 == 0xE3:
            return self._memory(word, register)
        if word >> 32 == 0xD207:  # mvc of eight bytes
            to, to_base = word >> 16 & 0xFFF, word >> 28 & 15
            offset, base = word & 0xFFF, word >> 12 & 15
            value = self.get(f"%r{base}")
            place = value.number + offset & self.mask if value.kind == NUMBER else None
            held = Value(UNKNOWN) if place is None else Value(CELL, place)
            self.registers[f"{to}(%r{to_base})"] = held
            return f"mvc {to}(8,%r{to_base}),{offset}(%r{base})", ON, None, place
        return None

    def _memory(self, word: int, register: str) -> Found | None:
        names = {0x04: "lg", 0x14: "lgf", 0x24: "stg"}
        kind, base = word & 0xFF, word >> 28 & 15
        if kind not in names or word >> 32 & 15:
            return None
        offset = _signed((word >> 8 & 0xFF) << 12 | word >> 16 & 0xFFF, 20)
        text = f"{names[kind]} {register},{offset}(%r{base})"
        if kind == 0x24:
            self.registers[f"{offset}(%r{base})"] = self.get(register)
            return text, ON, None, None
        value = self.get(f"%r{base}")
        if value.kind != NUMBER:
            self.registers[register] = Value(UNKNOWN)
            return text, ON, None, None
        place = value.number + offset & self.mask
        literal = self.literal(place, 8 if kind == 0x04 else 4)
        self.registers[register] = Value(CELL, place) if literal is None else Value(NUMBER, literal)
        return text, ON, None, place

    # ---- callers ----

    def calls(
        self, code: bytes, vaddr: int, stubs: Collection[int], slots: Collection[int]
    ) -> Iterator[CallInstruction]:
        """Yield each brasl and jg to a stub, and each lgrl with basr or br through a slot."""
        for target in stubs:
            for at in _fields(code, vaddr, target):
                if at < 2:
                    continue
                head = code[at - 2 : at]
                if head[:1] == b"\xc0" and head[1] & 15 == 5:
                    flow = CALL
                elif head[:1] == b"\xc0" and head[1] & 15 == 4:
                    flow = JUMP
                else:
                    continue
                yield CallInstruction(vaddr + at - 2, 6, flow, target, vaddr + at - 2)
        for slot in slots:
            for at in _fields(code, vaddr, slot):
                if at < 2 or code[at - 2] != 0xC4 or code[at - 1] & 15 != 8:  # lgrl
                    continue
                held = code[at - 1] >> 4
                behind = code[at + 4 : at + 6]
                if behind[:1] == b"\x0d" and behind[1] & 15 == held:
                    yield CallInstruction(vaddr + at + 4, 2, CALL_THROUGH, slot, vaddr + at - 2)
                elif behind == bytes((0x07, 0xF0 | held)):
                    yield CallInstruction(vaddr + at + 4, 2, THROUGH, slot, vaddr + at - 2)


def _fields(code: bytes, vaddr: int, target: int) -> Iterator[int]:
    """Yield positions of 4-byte distances to `target` from the instruction 2 bytes before."""
    for block in range(0, len(code), _BLOCK):
        steps = target - vaddr - block + 2 >> 1
        for high in {steps >> 16 & 0xFFFF, steps - (_BLOCK >> 1) >> 16 & 0xFFFF}:
            pattern = high.to_bytes(2, "big")
            for at in spots(code, pattern, block, min(block + _BLOCK + 1, len(code))):
                field = int.from_bytes(code[at : at + 4], "big", signed=True)
                if vaddr + at - 2 + 2 * field == target and not vaddr + at & 1:
                    yield at


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


LISTER = S390x
