# SPDX-License-Identifier: Apache-2.0
"""Listing of arm: the instructions of stubs and PLT0, and their callers in Arm and Thumb code.

Arm Architecture Reference Manual, ARMv7-A. It covers the stubs of GNU ld, gold, LLD and mold.
They are Arm code, some with a Thumb instruction in front that switches to Arm.
"""

from __future__ import annotations

import struct

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
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_NAMES = (*(f"r{number}" for number in range(11)), "fp", "ip", "sp", "lr", "pc")
_NOP = 0xE320F000
_BX_PC = 0x4778
_BEHIND = {0x46C0: "nop", 0xBF00: "nop", 0xE7FD: "b .-2"}  # never run


class Arm(Lister):
    """Arm instructions are words; the Thumb ones here are the halfwords `bx pc` and nop."""

    longest = 4
    step = 4

    def line(self, code: bytes, vaddr: int) -> Line:
        """Decode one instruction."""
        if len(code) < 4:
            return self.unknown(code, vaddr)
        code = code[:4]
        (word,) = struct.unpack(self.order + "I", code)
        first, second = struct.unpack(self.order + "HH", code)
        if first == _BX_PC and second in _BEHIND:
            return Line(vaddr, code, f"bx pc; {_BEHIND[second]}")
        for decode in (self._sum, self._load, self._jump):
            decoded = decode(word, vaddr)
            if decoded is not None:
                text, flow, target, refer = decoded
                return Line(vaddr, code, text, flow, target, refer)
        return Line(vaddr, code, f".word {word:#010x}", LEAVE, known=False)

    def _get(self, number: int, vaddr: int) -> Value:
        return Value(NUMBER, vaddr + 8) if number == 15 else self.get(_NAMES[number])

    def _sum(self, word: int, vaddr: int) -> tuple[str, str, None, int | None] | None:
        if word & 0x0FE00000 == 0x02800000:  # add rd, rn, #rotated
            turn = word >> 7 & 30
            number = word & 0xFF
            number = (number >> turn | number << 32 - turn) & self.mask
            shown = f"#{number}" if _is_usual(number, turn) else f"#{word & 0xFF}, {turn}"
            other = Value(NUMBER, number)
        elif word & 0x0FE00FF0 == 0x00800000:  # add rd, rn, rm
            other = self._get(word & 15, vaddr)
            shown = _NAMES[word & 15]
        elif word == _NOP:
            return "nop", ON, None, None
        else:
            return None
        left, target = word >> 16 & 15, _NAMES[word >> 12 & 15]
        value = self._get(left, vaddr)
        text = f"add {target}, {_NAMES[left]}, {shown}"
        if value.kind == other.kind == NUMBER:
            place = value.number + other.number & self.mask
            self.registers[target] = Value(NUMBER, place)
            return text, ON, None, place
        self.registers[target] = Value(UNKNOWN)
        return text, ON, None, None

    def _load(self, word: int, vaddr: int) -> tuple[str, str, int | None, int | None] | None:
        if word == 0xE52DE004:
            self.stack.append(self.get("lr"))
            return "push {lr}", ON, None, None
        if word & 0x0F500000 != 0x05100000:  # ldr rd, [rn, #±offset] and [rn, #±offset]!
            return None
        base, target, offset = word >> 16 & 15, word >> 12 & 15, word & 0xFFF
        distance = offset if word >> 23 & 1 else -offset
        is_kept = bool(word >> 21 & 1)
        value = self._get(base, vaddr)
        inner = f"[{_NAMES[base]}, #{distance}]" if distance or is_kept else f"[{_NAMES[base]}]"
        text = f"ldr {_NAMES[target]}, {inner}{'!' if is_kept else ''}"
        if value.kind != NUMBER:
            self.registers[_NAMES[target]] = Value(UNKNOWN)
            return text, LEAVE if target == 15 else ON, None, None
        place = value.number + distance & self.mask
        if is_kept:
            self.registers[_NAMES[base]] = Value(NUMBER, place)
        if target == 15:
            return text, THROUGH, place, place
        literal = self.literal(place, 4)
        self.registers[_NAMES[target]] = (
            Value(CELL, place) if literal is None else Value(NUMBER, literal)
        )
        return text, ON, None, place

    def _jump(self, word: int, vaddr: int) -> tuple[str, str, int, None] | None:
        if word & 0xFF000000 in (0xEA000000, 0xEB000000):
            target = vaddr + 8 + (_signed(word & 0xFFFFFF, 24) << 2) & self.mask
            is_call = bool(word >> 24 & 1)
            return (
                f"{'bl' if is_call else 'b'} {target:#x}",
                CALL if is_call else JUMP,
                target,
                None,
            )
        return None

    # ---- callers ----

    def calls(
        self, code: bytes, vaddr: int, stubs: Collection[int], slots: Collection[int]
    ) -> Iterator[CallInstruction]:
        """Yield each bl, blx and b to a stub; direct calls through slots are not recognised."""
        wanted = {*stubs, *(stub + 4 for stub in stubs), *(stub - 4 for stub in stubs)}
        yield from self._arm(code, vaddr, stubs, wanted)
        yield from self._thumb(code, vaddr, stubs, wanted)

    def _stub(self, target: int, stubs: Collection[int]) -> int | None:
        """Return the stub at `target`, with or without its Thumb head, None if there is none."""
        for stub in (target, target + 4, target - 4):
            if stub in stubs and (stub == target or self._has_head(min(stub, target))):
                return stub
        return None

    def _has_head(self, vaddr: int) -> bool:
        word = self.literal(vaddr, 4)
        return word is not None and word & 0xFFFF == _BX_PC

    def _arm(
        self, code: bytes, vaddr: int, stubs: Collection[int], wanted: Collection[int]
    ) -> Iterator[CallInstruction]:
        start = -vaddr & 3
        size = len(code) - start & ~3
        for index, (word,) in enumerate(struct.iter_unpack(self.order + "I", code[start:][:size])):
            kind = word >> 24
            if kind not in (0xEA, 0xEB):
                continue
            at = vaddr + start + 4 * index
            target = at + 8 + (_signed(word & 0xFFFFFF, 24) << 2) & self.mask
            if target in wanted and (stub := self._stub(target, stubs)) is not None:
                yield CallInstruction(at, 4, CALL if kind == 0xEB else JUMP, stub, at)

    def _thumb(
        self, code: bytes, vaddr: int, stubs: Collection[int], wanted: Collection[int]
    ) -> Iterator[CallInstruction]:
        start = vaddr & 1
        halves = memoryview(code)[start : start + (len(code) - start & ~1)]
        words = [word for (word,) in struct.iter_unpack(self.order + "H", halves)]
        for index in range(len(words) - 1):
            first, second = words[index], words[index + 1]
            if first & 0xF800 != 0xF000 or second & 0x8000 == 0 or second & 0xD000 == 0x8000:
                continue
            sign = first >> 10 & 1
            high = (second >> 13 & 1 ^ sign ^ 1) << 1 | (second >> 11 & 1 ^ sign ^ 1)
            distance = sign << 24 | high << 22 | (first & 0x3FF) << 12 | (second & 0x7FF) << 1
            at = vaddr + start + 2 * index
            is_switch = second & 0xD000 == 0xC000  # blx switches to Arm code
            base = at + 4 & ~3 if is_switch else at + 4
            target = base + _signed(distance, 25) & self.mask
            if target in wanted and (stub := self._stub(target, stubs)) is not None:
                is_call = bool(second & 0x4000)
                name = "blx" if is_switch else "bl" if is_call else "b.w"
                text = f"{name} {target:#x}"
                yield CallInstruction(at, 4, CALL if is_call else JUMP, stub, at, text)


def _is_usual(number: int, turn: int) -> bool:
    """Return whether no smaller rotation gives the same number from eight bits."""
    return not any(
        (number << less | number >> 32 - less) & 0xFFFF_FFFF < 256 for less in range(0, turn, 2)
    )


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


LISTER = Arm
