# SPDX-License-Identifier: Apache-2.0
"""Listing of riscv64 and riscv32: the instructions of stubs and PLT0.

The RISC-V Instruction Set Manual, volume 1, and the psABI's "Program Linkage Table". GNU ld,
LLD and mold make these stubs. None of their instructions is compressed.
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

_NAMES = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{number}" for number in range(8)),
    *(f"s{number}" for number in range(2, 12)),
    *("t3", "t4", "t5", "t6"),
)
_PAGE = 1 << 12
_LINKS = (1, 5)  # ra and t0: registers for return addresses

Found = tuple[str, str, int | None, int | None]


class Riscv(Lister):
    """Instructions are words, little-endian."""

    longest = 4
    step = 4

    def line(self, code: bytes, vaddr: int) -> Line:
        """Decode one instruction."""
        if len(code) < 4:
            return self.unknown(code, vaddr)
        code = code[:4]
        (word,) = struct.unpack("<I", code)
        decode = {
            0x17: self._auipc,
            0x03: self._load,
            0x13: self._immediate,
            0x33: self._subtract,
            0x67: self._jalr,
            0x6F: self._jal,
        }.get(word & 0x7F)
        decoded = None if decode is None else decode(word, vaddr)
        if decoded is None:
            return Line(vaddr, code, f".word {word:#010x}", LEAVE, known=False)
        return Line(vaddr, code, *decoded)

    def _set(self, number: int, value: Value) -> None:
        if number:
            self.registers[_NAMES[number]] = value

    def _known(self, number: int) -> int | None:
        value = Value(NUMBER) if not number else self.get(_NAMES[number])
        return value.number if value.kind == NUMBER else None

    def _auipc(self, word: int, vaddr: int) -> Found:
        number, high = word >> 7 & 31, word >> 12
        place = vaddr + _signed(word & 0xFFFFF000, 32) & self.mask
        self._set(number, Value(NUMBER, place))
        return f"auipc {_NAMES[number]},{high:#x}", ON, None, None

    def _load(self, word: int, _: int) -> Found | None:
        kinds = {2: "lw", 3: "ld"}
        kind, target, base = word >> 12 & 7, word >> 7 & 31, word >> 15 & 31
        if kind not in kinds:
            return None
        offset = _signed(word >> 20, 12)
        value = self._known(base)
        place = None if value is None else value + offset & self.mask
        self._set(target, Value(UNKNOWN) if place is None else Value(CELL, place))
        return f"{kinds[kind]} {_NAMES[target]},{offset}({_NAMES[base]})", ON, None, place

    def _immediate(self, word: int, _: int) -> Found | None:
        if word == 0x13:
            return "nop", ON, None, None
        kind, target, base = word >> 12 & 7, word >> 7 & 31, word >> 15 & 31
        value = self._known(base)
        if kind == 0:
            number = _signed(word >> 20, 12)
            result = None if value is None else value + number & self.mask
            text = f"add {_NAMES[target]},{_NAMES[base]},{number}"
        elif kind == 5 and not word >> 26:
            number = word >> 20 & 63
            result = None if value is None else value >> number
            text = f"srl {_NAMES[target]},{_NAMES[base]},{number:#x}"
        else:
            return None
        self._set(target, Value(UNKNOWN) if result is None else Value(NUMBER, result))
        return text, ON, None, None

    def _subtract(self, word: int, _: int) -> Found | None:
        if word & 0xFE007000 != 0x40000000:
            return None
        target, left, right = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31
        first, other = self._known(left), self._known(right)
        is_known = first is not None and other is not None
        result = (first or 0) - (other or 0) & self.mask
        self._set(target, Value(NUMBER, result) if is_known else Value(UNKNOWN))
        return f"sub {_NAMES[target]},{_NAMES[left]},{_NAMES[right]}", ON, None, None

    def _jalr(self, word: int, vaddr: int) -> Found | None:
        target, base, offset = word >> 7 & 31, word >> 15 & 31, _signed(word >> 20, 12)
        value = self.get(_NAMES[base])
        self._set(target, Value(NUMBER, vaddr + 4))
        inner = f"{offset}({_NAMES[base]})" if offset else _NAMES[base]
        text = f"jalr {_NAMES[target]},{inner}" if target else f"jr {inner}"
        if value.kind == CELL and not offset:
            # a stub stores its own address in t1; no call returns there
            return text, THROUGH, value.number, None
        if value.kind == NUMBER:
            flow = CALL if target in _LINKS else JUMP
            return text, flow, value.number + offset & self.mask, None
        return text, LEAVE, None, None

    def _jal(self, word: int, vaddr: int) -> Found:
        number = word >> 7 & 31
        raw = (word >> 31) << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11
        target = vaddr + _signed(raw | (word >> 21 & 0x3FF) << 1, 21) & self.mask
        self._set(number, Value(NUMBER, vaddr + 4))
        text = f"jal {_NAMES[number]},{target:#x}" if number else f"j {target:#x}"
        return text, CALL if number in _LINKS else JUMP, target, None

    # ---- callers ----

    def calls(
        self, code: bytes, vaddr: int, stubs: Collection[int], slots: Collection[int]
    ) -> Iterator[CallInstruction]:
        """Yield each jal, auipc with jalr, and auipc with ld and jalr through a slot."""
        for target in stubs:
            for at in _pages(code, vaddr, target):
                instruction = self._pair(code, vaddr, at, target)
                if instruction is not None:
                    yield instruction
        for slot in slots:
            for at in _pages(code, vaddr, slot):
                instruction = self._through(code, vaddr, at, slot)
                if instruction is not None:
                    yield instruction
        yield from self._jals(code, vaddr, stubs)

    def _words(self, code: bytes, at: int, count: int) -> tuple[int, ...]:
        if len(code) < at + 4 * count:
            return ()
        return struct.unpack_from(f"<{count}I", code, at)

    def _pair(self, code: bytes, vaddr: int, at: int, target: int) -> CallInstruction | None:
        words = self._words(code, at, 2)
        if not words:
            return None
        first, second = words
        if second & 0x707F != 0x67 or second >> 15 & 31 != first >> 7 & 31:
            return None
        place = vaddr + at + _signed(first & 0xFFFFF000, 32) + _signed(second >> 20, 12)
        if place & self.mask != target:
            return None
        flow = CALL if second >> 7 & 31 in _LINKS else JUMP
        return CallInstruction(vaddr + at + 4, 4, flow, target, vaddr + at)

    def _through(self, code: bytes, vaddr: int, at: int, slot: int) -> CallInstruction | None:
        words = self._words(code, at, 3)
        if not words:
            return None
        first, load, jump = words
        held = load >> 7 & 31
        if load & 0x7F != 0x03 or load >> 15 & 31 != first >> 7 & 31:
            return None
        place = vaddr + at + _signed(first & 0xFFFFF000, 32) + _signed(load >> 20, 12)
        if place & self.mask != slot:
            return None
        if jump & 0xFFF0707F == 0x67 and jump >> 15 & 31 == held:
            is_call, size = jump >> 7 & 31 in _LINKS, 4
        elif jump & 0xEFFF == 0x8002 | held << 7:  # c.jr, c.jalr
            is_call, size = bool(jump & 0x1000), 2
        else:
            return None
        return CallInstruction(
            vaddr + at + 8, size, CALL_THROUGH if is_call else THROUGH, slot, vaddr + at
        )

    def _jals(self, code: bytes, vaddr: int, stubs: Collection[int]) -> Iterator[CallInstruction]:
        if not stubs:
            return
        low, high = min(stubs) - (1 << 20), max(stubs) + (1 << 20)
        begin = max(0, low - vaddr) + (vaddr & 1) & ~1
        for at in range(begin, min(len(code) - 3, high - vaddr), 2):
            if code[at] & 0x7F != 0x6F:
                continue
            (word,) = struct.unpack_from("<I", code, at)
            raw = (word >> 31) << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11
            target = vaddr + at + _signed(raw | (word >> 21 & 0x3FF) << 1, 21) & self.mask
            if target in stubs:
                flow = CALL if word >> 7 & 31 in _LINKS else JUMP
                yield CallInstruction(vaddr + at, 4, flow, target, vaddr + at)


def _pages(code: bytes, vaddr: int, target: int) -> Iterator[int]:
    """Yield the positions of each auipc that leads near `target`, in blocks of 4 KiB of code.

    In one such block, the upper half of the instruction has few values.
    """
    for block in range(0, len(code), _PAGE):
        distance = target - vaddr - block + (_PAGE >> 1)
        highs = {distance >> 16 & 0xFFFF, distance - _PAGE >> 16 & 0xFFFF}
        for high in highs:
            pattern = high.to_bytes(2, "little")
            for spot in spots(code, pattern, block + 2, min(block + _PAGE + 3, len(code))):
                at = spot - 2
                if code[at] & 0x7F == 0x17 and not vaddr + at & 1:
                    yield at


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


LISTER = Riscv
