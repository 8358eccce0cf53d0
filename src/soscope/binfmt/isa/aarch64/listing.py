# SPDX-License-Identifier: Apache-2.0
"""Listing of aarch64, arm64 and arm64e: the instructions of stubs, PLT0, stub helpers, thunks.

Arm Architecture Reference Manual for A-profile, "Base Instructions". It covers the stubs of GNU
ld, gold, LLD and Apple's linkers, with BTI and pointer authentication.
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

_FIXED = {
    0xD503201F: "nop",
    0xD503245F: "bti c",
    0xD503249F: "bti j",
    0xD50324DF: "bti jc",
    0xD503219F: "autia1716",
    0xD50321DF: "autib1716",
}
_ENDS = {0xD65F03C0: "ret"}
_JUMPS = {  # opcode without its register -> (name, is it a call)
    0xD61F0000: ("br", False),
    0xD63F0000: ("blr", True),
    0xD61F081F: ("braaz", False),
    0xD61F0C1F: ("brabz", False),
    0xD63F081F: ("blraaz", True),
    0xD63F0C1F: ("blrabz", True),
}
_AUTHENTICATED = {  # jumps with a register that holds the modifier
    0xD71F0800: ("braa", False),
    0xD71F0C00: ("brab", False),
    0xD73F0800: ("blraa", True),
    0xD73F0C00: ("blrab", True),
}
_PAGE = 0xFFF
_NEAR = 8  # instructions from an adrp to the jump through its cell, at most
_BLOCK = 1 << 16


class Aarch64(Lister):
    """All instructions are 32-bit words, little-endian."""

    longest = 4
    step = 4

    def line(self, code: bytes, vaddr: int) -> Line:
        """Decode one instruction."""
        if len(code) < 4:
            return self.unknown(code, vaddr)
        (word,) = struct.unpack_from("<I", code)
        code = code[:4]
        for decode in (self._plain, self._branch, self._address, self._memory):
            decoded = decode(word, vaddr)
            if decoded is not None:
                text, flow, target, refer = decoded
                return Line(vaddr, code, text, flow, target, refer)
        return Line(vaddr, code, f".word {word:#010x}", LEAVE, known=False)

    def _plain(self, word: int, _: int) -> tuple[str, str, None, None] | None:
        if word in _FIXED:
            return _FIXED[word], ON, None, None
        if word in _ENDS:
            return _ENDS[word], LEAVE, None, None
        if word & 0xFFE0001F == 0xD4200000:
            return f"brk #{word >> 5 & 0xFFFF:#x}", LEAVE, None, None
        return None

    def _branch(self, word: int, vaddr: int) -> tuple[str, str, int | None, None] | None:
        if word & 0x7C000000 == 0x14000000:
            target = vaddr + (_signed(word & 0x3FFFFFF, 26) << 2) & self.mask
            is_call = bool(word >> 31)
            return (
                f"{'bl' if is_call else 'b'} {target:#x}",
                CALL if is_call else JUMP,
                target,
                None,
            )
        number = word >> 5 & 31
        name, is_call = _JUMPS.get(word & ~(31 << 5), ("", False))
        text = f"{name} x{number}"
        if not name:
            name, is_call = _AUTHENTICATED.get(word & ~(31 << 5) & ~31, ("", False))
            modifier = word & 31
            text = f"{name} x{number}, {'sp' if modifier == 31 else f'x{modifier}'}"
        if not name:
            return None
        value = self.get(f"x{number}")
        if value.kind == CELL:
            return text, CALL_THROUGH if is_call else THROUGH, value.number, None
        if value.kind == NUMBER:
            return text, CALL if is_call else JUMP, value.number, None
        return text, LEAVE, None, None

    def _address(self, word: int, vaddr: int) -> tuple[str, str, None, int | None] | None:
        register = f"x{word & 31}"
        if word & 0x1F000000 == 0x10000000:
            distance = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            is_page = bool(word >> 31)
            place = (vaddr & ~_PAGE) + (distance << 12) if is_page else vaddr + distance
            place &= self.mask
            self.registers[register] = Value(NUMBER, place)
            text = f"{'adrp' if is_page else 'adr'} {register}, {place:#x}"
            return text, ON, None, None if is_page else place
        if word & 0xFF800000 == 0x91000000:
            number, shift = word >> 10 & 0xFFF, 12 if word >> 22 & 1 else 0
            base = self.get(f"x{word >> 5 & 31}")
            refer = None
            if base.kind == NUMBER:
                refer = base.number + (number << shift) & self.mask
            self.registers[register] = Value(UNKNOWN) if refer is None else Value(NUMBER, refer)
            tail = ", lsl #12" if shift else ""
            return f"add {register}, x{word >> 5 & 31}, #{number:#x}{tail}", ON, None, refer
        if word & 0xFFE00000 == 0xD2800000:
            number = word >> 5 & 0xFFFF
            self.registers[register] = Value(NUMBER, number)
            return f"mov {register}, #{number:#x}", ON, None, None
        if word & 0xFFE0FFE0 == 0xAA0003E0:
            other = f"x{word >> 16 & 31}"
            self.registers[register] = self.get(other)
            return f"mov {register}, {other}", ON, None, None
        return None

    def _memory(self, word: int, vaddr: int) -> tuple[str, str, None, int | None] | None:
        register = word & 31
        if word & 0xBF000000 == 0x18000000:
            place = vaddr + (_signed(word >> 5 & 0x7FFFF, 19) << 2) & self.mask
            literal = self.literal(place, 8 if word >> 30 else 4)
            held = Value(CELL, place) if literal is None else Value(NUMBER, literal)
            self.registers[f"x{register}"] = held
            return f"ldr {'x' if word >> 30 else 'w'}{register}, {place:#x}", ON, None, place
        if word & 0xBFC00000 == 0xB9400000:
            is_long = bool(word >> 30 & 1)
            offset = (word >> 10 & 0xFFF) << (3 if is_long else 2)
            number = word >> 5 & 31
            base = self.get(f"x{number}")
            refer = base.number + offset & self.mask if base.kind == NUMBER else None
            self.registers[f"x{register}"] = Value(UNKNOWN) if refer is None else Value(CELL, refer)
            inner = f"[x{number}, #{offset}]" if offset else f"[x{number}]"
            return f"ldr {'x' if is_long else 'w'}{register}, {inner}", ON, None, refer
        if word & 0xFFC00000 == 0xA9800000 and word >> 5 & 31 == 31:
            other = word >> 10 & 31
            distance = _signed(word >> 15 & 0x7F, 7) << 3
            self.stack += [self.get(f"x{other}"), self.get(f"x{register}")]
            return f"stp x{register}, x{other}, [sp, #{distance}]!", ON, None, None
        return None

    # ---- callers ----

    def calls(
        self, code: bytes, vaddr: int, stubs: Collection[int], slots: Collection[int]
    ) -> Iterator[CallInstruction]:
        """Yield branches to stubs, and jumps through slots that adrp and ldr address."""
        for target in stubs:
            for at, word in _branches(code, vaddr, target):
                yield CallInstruction(
                    vaddr + at, 4, CALL if word >> 31 else JUMP, target, vaddr + at
                )
        for slot in slots:
            for at in _pages(code, vaddr, slot):
                instruction = self._through(code, vaddr, at)
                if instruction is not None and instruction.target == slot:
                    yield instruction

    def _through(self, code: bytes, vaddr: int, at: int) -> CallInstruction | None:
        """Return the jump through a cell that begins with the adrp at `at`, or None."""
        (word,) = struct.unpack_from("<I", code, at)
        held = word & 31
        distance = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        page = (vaddr + at & ~_PAGE) + (distance << 12) & self.mask
        slot: int | None = None
        for place in range(at + 4, min(at + 4 * _NEAR, len(code) - 3), 4):
            (word,) = struct.unpack_from("<I", code, place)
            is_load = word & 0xFFC00000 == 0xF9400000 and word >> 5 & 31 == held
            if slot is None and is_load:
                slot = page + ((word >> 10 & 0xFFF) << 3) & self.mask
                held = word & 31
            elif slot is not None and word & 0xFFFFFC1F in (0xD61F0000, 0xD63F0000):
                if word >> 5 & 31 != held:
                    return None
                flow = CALL_THROUGH if word & 0x200000 else THROUGH
                return CallInstruction(vaddr + place, 4, flow, slot, vaddr + at)
            elif _may_change(word, held):
                return None
        return None

    def thunks(self, code: bytes, vaddr: int, stubs: Collection[int]) -> Iterator[tuple[int, int]]:
        """Yield each `adrp x16; add x16; br x16` that leads to a stub."""
        for target in stubs:
            for at in _pages(code, vaddr, target):
                if code[at] & 31 != 16 or len(code) < at + 12:
                    continue
                second, third = struct.unpack_from("<II", code, at + 4)
                is_sum = second & 0xFFC003FF == 0x91000210 and third == 0xD61F0200
                if is_sum and second >> 10 & 0xFFF == target & _PAGE:
                    yield vaddr + at, target


def _may_change(word: int, register: int) -> bool:
    """Return whether an instruction may write a register, or is a branch.

    A store or comparison counts, too, if it has the register in the same field.
    """
    is_branch = word >> 26 & 7 == 5 and word & 0xFFFFF01F != 0xD503201F  # nop and other hints
    is_pair = word >> 27 & 7 == 5 and bool(word >> 22 & 1)
    return is_branch or word & 31 == register or (is_pair and word >> 10 & 31 == register)


def _branches(code: bytes, vaddr: int, target: int) -> Iterator[tuple[int, int]]:
    """Yield (address, word) of every `b` and `bl` to `target`.

    Within a block of 64 KiB, the upper half of such a word has only two values, so these are
    searched for.
    """
    for block in range(0, len(code), _BLOCK):
        steps = target - vaddr - block >> 2
        for opcode in (0x14000000, 0x94000000):
            for near in {steps >> 16 & 0x3FF, steps - (_BLOCK >> 2) >> 16 & 0x3FF}:
                high = (opcode >> 16 | near).to_bytes(2, "little")
                for at in spots(code, high, block + 2, min(block + _BLOCK + 2, len(code))):
                    place = at - 2
                    word = int.from_bytes(code[place : place + 4], "little")
                    distance = _signed(word & 0x3FFFFFF, 26) << 2
                    if not vaddr + place & 3 and vaddr + place + distance == target:
                        yield place, word


def _pages(code: bytes, vaddr: int, target: int) -> Iterator[int]:
    """Yield the positions of each `adrp` to the page of `target`, page by page of the code.

    In one page of code, all such instructions have the same bytes except for the register.
    """
    at = 0
    while at < len(code):
        page = vaddr + at & ~_PAGE
        end = min(page + _PAGE + 1 - vaddr, len(code))
        distance = (target >> 12) - (page >> 12) & 0x1FFFFF
        high = 0x9000 | (distance & 3) << 13 | distance >> 13
        low = distance >> 2 & 7  # lowest three bits of the distance, above the register
        for spot in spots(code, high.to_bytes(2, "little"), at + 2, end):
            place = spot - 2
            is_near = code[place + 1] == (distance >> 5 & 0xFF) and code[place] >> 5 == low
            if is_near and not vaddr + place & 3:
                yield place
        at = end


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


LISTER = Aarch64
