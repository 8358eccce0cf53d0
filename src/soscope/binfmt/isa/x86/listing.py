# SPDX-License-Identifier: Apache-2.0
"""Listing of x86-64 and i386: stubs, PLT0 and stub helpers, in AT&T syntax.

Intel's Software Developer's Manual, volume 2. It covers the stubs of GNU ld, gold, LLD, mold and
Apple's linkers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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

# Text of the operand: {d} is its signed value, {n} the unsigned value, {t} a branch's target.
_NEXT = "next"  # counts from the end of the instruction
_ABSOLUTE = "absolute"
_NUMBER = "number"


class _Instruction(NamedTuple):
    """One instruction: `operand` is a constant from above, or the register it counts from."""

    shape: re.Pattern[bytes]
    text: str
    operand: str
    does: str  # name of a method, without its underscore
    register: str


def _row(
    shape: bytes, text: str, operand: str = "", does: str = "on", register: str = ""
) -> _Instruction:
    return _Instruction(re.compile(shape, re.DOTALL), text, operand, does, register)


_N4 = rb"(.{4})"
_BOTH = [
    _row(rb"\xe9" + _N4, "jmp {t}", _NEXT, "jump"),
    _row(rb"\xf2\xe9" + _N4, "bnd jmp {t}", _NEXT, "jump"),
    _row(rb"\xeb(.)", "jmp {t}", _NEXT, "jump"),
    _row(rb"\xe8" + _N4, "call {t}", _NEXT, "call"),
    _row(rb"\x68" + _N4, "push ${n}", _NUMBER, "push_number"),
    _row(rb"\x6a(.)", "push ${n}", _NUMBER, "push_number"),
    _row(rb"\xf3\x90", "pause"),
    _row(rb"\x0f\xae\xe8", "lfence"),
    _row(rb"\xcc", "int3", does="leave"),
    _row(rb"\xf4", "hlt", does="leave"),
    _row(rb"\x90", "nop"),
    _row(rb"\x66\x90", "xchg %ax,%ax"),
    _row(rb"\xc3", "ret", does="ret"),
]
_ROWS_64 = [
    _row(rb"\xf3\x0f\x1e\xfa", "endbr64"),
    _row(rb"\xff\x25" + _N4, "jmp *{d}(%rip)", _NEXT, "through"),
    _row(rb"\xf2\xff\x25" + _N4, "bnd jmp *{d}(%rip)", _NEXT, "through"),
    _row(rb"\xff\x15" + _N4, "call *{d}(%rip)", _NEXT, "call_through"),
    _row(rb"\xff\x35" + _N4, "push {d}(%rip)", _NEXT, "push_cell"),
    _row(rb"\x4c\x8d\x1d" + _N4, "lea {d}(%rip),%r11", _NEXT, "compute", "%r11"),
    _row(rb"\x4c\x8b\x1d" + _N4, "mov {d}(%rip),%r11", _NEXT, "load", "%r11"),
    _row(rb"\x48\x8b\x35" + _N4, "mov {d}(%rip),%rsi", _NEXT, "load", "%rsi"),
    _row(rb"\x48\x8b\x05" + _N4, "mov {d}(%rip),%rax", _NEXT, "load", "%rax"),
    _row(rb"\x41\xbb" + _N4, "mov ${n},%r11d", _NUMBER, "compute", "%r11"),
    _row(rb"\x41\x53", "push %r11", does="push", register="%r11"),
    _row(rb"\x41\xff\xe3", "jmp *%r11", does="jump_register", register="%r11"),
    _row(rb"\x4c\x89\x1c\x24", "mov %r11,(%rsp)", does="store_top", register="%r11"),
    _row(rb"\x0f\x1f\0", "nopl (%rax)"),
    _row(rb"\x0f\x1f\x40\0", "nopl 0x0(%rax)"),
    _row(rb"\x0f\x1f\x44\0\0", "nopl 0x0(%rax,%rax,1)"),
    _row(rb"\x66\x0f\x1f\x44\0\0", "nopw 0x0(%rax,%rax,1)"),
    *_BOTH,
]
_ROWS_32 = [
    _row(rb"\xf3\x0f\x1e\xfb", "endbr32"),
    _row(rb"\xff\x25" + _N4, "jmp *{n}", _ABSOLUTE, "through"),
    _row(rb"\xf2\xff\x25" + _N4, "bnd jmp *{n}", _ABSOLUTE, "through"),
    _row(rb"\xff\xa3" + _N4, "jmp *{d}(%ebx)", "%ebx", "through"),
    _row(rb"\xf2\xff\xa3" + _N4, "bnd jmp *{d}(%ebx)", "%ebx", "through"),
    _row(rb"\xff\x61(.)", "jmp *{d}(%ecx)", "%ecx", "through"),
    _row(rb"\xff\x15" + _N4, "call *{n}", _ABSOLUTE, "call_through"),
    _row(rb"\xff\x93" + _N4, "call *{d}(%ebx)", "%ebx", "call_through"),
    _row(rb"\xff\x35" + _N4, "push {n}", _ABSOLUTE, "push_cell"),
    _row(rb"\xff\xb3" + _N4, "push {d}(%ebx)", "%ebx", "push_cell"),
    _row(rb"\xff\x31()", "push (%ecx)", "%ecx", "push_cell"),
    _row(rb"\xb9" + _N4, "mov ${n},%ecx", _NUMBER, "compute", "%ecx"),
    _row(rb"\x8d\x8b" + _N4, "lea {d}(%ebx),%ecx", "%ebx", "compute", "%ecx"),
    _row(rb"\x8d\x80" + _N4, "lea {d}(%eax),%eax", "%eax", "compute", "%eax"),
    _row(rb"\xa1" + _N4, "mov {n},%eax", _ABSOLUTE, "load", "%eax"),
    _row(rb"\x8b\x83" + _N4, "mov {d}(%ebx),%eax", "%ebx", "load", "%eax"),
    _row(rb"\x8b\x90" + _N4, "mov {d}(%eax),%edx", "%eax", "load", "%edx"),
    _row(rb"\x50", "push %eax", does="push", register="%eax"),
    _row(rb"\x51", "push %ecx", does="push", register="%ecx"),
    _row(rb"\x58", "pop %eax", does="pop", register="%eax"),
    _row(rb"\x59", "pop %ecx", does="pop", register="%ecx"),
    _row(rb"\xff\xe2", "jmp *%edx", does="jump_register", register="%edx"),
    _row(rb"\xff\xe0", "jmp *%eax", does="jump_register", register="%eax"),
    _row(rb"\xff\xe1", "jmp *%ecx", does="jump_register", register="%ecx"),
    _row(rb"\x89\x0c\x24", "mov %ecx,(%esp)", does="store_top", register="%ecx"),
    _row(rb"\x8b\x4c\x24\x04", "mov 0x4(%esp),%ecx", does="load_second", register="%ecx"),
    _row(rb"\x89\x44\x24\x04", "mov %eax,0x4(%esp)", does="store_second", register="%eax"),
    _row(rb"\x89\xc8", "mov %ecx,%eax", does="move_to_eax", register="%ecx"),
    _row(rb"\x0f\x1f\0", "nopl (%eax)"),
    _row(rb"\x66\x0f\x1f\x44\0\0", "nopw 0x0(%eax,%eax,1)"),
    *_BOTH,
]

_BLOCK = 1 << 16
_BY_ADDRESS = (0x15, 0x25)  # the byte behind 0xff, for call and jmp
_CALLS = (0x15, *range(0x90, 0x98))
_JUMPS = (0x25, *range(0xA0, 0xA8))
_INDEXED = (0x94, 0xA4)  # another byte follows


class X86Lister(Lister):
    """Decodes both instruction sets; `bits` is 64 or 32."""

    longest = 15

    def use_base(self, base: int) -> None:
        """Set the address of the GOT, which position-independent i386 code has in EBX."""
        if self.bits == 32:
            self.registers["%ebx"] = Value(NUMBER, base)

    def line(self, code: bytes, vaddr: int) -> Line:
        """Decode one instruction."""
        for row in _ROWS_64 if self.bits == 64 else _ROWS_32:
            match = row.shape.match(code)
            if match is not None:
                return self._line(row, match, vaddr)
        return self.unknown(code, vaddr)

    def _line(self, row: _Instruction, match: re.Match[bytes], vaddr: int) -> Line:
        raw = match[1] if match.re.groups else b""
        end = vaddr + match.end()
        signed = int.from_bytes(raw, "little", signed=True)
        number = int.from_bytes(raw, "little")
        place: int | None = None
        if row.operand == _NEXT:
            place = end + signed & self.mask
        elif row.operand == _ABSOLUTE:
            place = number
        elif row.operand == _NUMBER:
            place = signed & self.mask
        elif row.operand:
            base = self.get(row.operand)
            place = base.number + signed & self.mask if base.kind == NUMBER else None
        text = row.text.format(d=hex(signed), n=hex(number), t="" if place is None else hex(place))
        flow, target = getattr(self, "_" + row.does)(place, row.register, end)
        refer = place if row.operand not in ("", _NUMBER) and flow not in (JUMP, CALL) else None
        return Line(vaddr, match[0], text, flow, target, refer)

    # ---- effects of instructions: (address, register, end of the instruction) -> (flow, target)
    # ----

    def _on(self, *_: object) -> tuple[str, None]:
        return ON, None

    def _leave(self, *_: object) -> tuple[str, None]:
        return LEAVE, None

    def _jump(self, place: int, *_: object) -> tuple[str, int]:
        return JUMP, place

    def _call(self, place: int, _: str, end: int) -> tuple[str, int]:
        self.stack.append(Value(NUMBER, end))
        return CALL, place

    def _through(self, place: int | None, *_: object) -> tuple[str, int | None]:
        return (LEAVE, None) if place is None else (THROUGH, place)

    def _call_through(self, place: int | None, *_: object) -> tuple[str, int | None]:
        return (LEAVE, None) if place is None else (CALL_THROUGH, place)

    def _push_number(self, place: int, *_: object) -> tuple[str, None]:
        self.stack.append(Value(NUMBER, place))
        return ON, None

    def _push_cell(self, place: int | None, *_: object) -> tuple[str, None]:
        self.stack.append(_cell(place))
        return ON, None

    def _push(self, _: object, register: str, __: int) -> tuple[str, None]:
        self.stack.append(self.get(register))
        return ON, None

    def _pop(self, _: object, register: str, __: int) -> tuple[str, None]:
        self.registers[register] = self.stack.pop() if self.stack else Value(UNKNOWN)
        return ON, None

    def _compute(self, place: int | None, register: str, _: int) -> tuple[str, None]:
        self.registers[register] = Value(UNKNOWN) if place is None else Value(NUMBER, place)
        return ON, None

    def _load(self, place: int | None, register: str, _: int) -> tuple[str, None]:
        self.registers[register] = _cell(place)
        return ON, None

    def _store_top(self, _: object, register: str, __: int) -> tuple[str, None]:
        if self.stack:
            self.stack[-1] = self.get(register)
        return ON, None

    def _store_second(self, _: object, register: str, __: int) -> tuple[str, None]:
        if len(self.stack) > 1:
            self.stack[-2] = self.get(register)
        return ON, None

    def _load_second(self, _: object, register: str, __: int) -> tuple[str, None]:
        self.registers[register] = self.stack[-2] if len(self.stack) > 1 else Value(UNKNOWN)
        return ON, None

    def _move_to_eax(self, _: object, register: str, __: int) -> tuple[str, None]:
        self.registers["%eax"] = self.get(register)
        return ON, None

    def _jump_register(self, _: object, register: str, __: int) -> tuple[str, int | None]:
        return self._to(self.get(register))

    def _ret(self, *_: object) -> tuple[str, int | None]:
        return self._to(self.stack.pop() if self.stack else Value(UNKNOWN))

    @staticmethod
    def _to(value: Value) -> tuple[str, int | None]:
        if value.kind == CELL:
            return THROUGH, value.number
        return (JUMP, value.number) if value.kind == NUMBER else (LEAVE, None)

    # ---- callers ----

    def calls(
        self, code: bytes, vaddr: int, stubs: Collection[int], slots: Collection[int]
    ) -> Iterator[CallInstruction]:
        """Yield calls and jumps, also conditional ones, to stubs and through slots."""
        for target in stubs:
            for at in _fields(code, vaddr, target):
                opcode = code[at - 1] if at else 0
                if opcode in (0xE8, 0xE9):
                    flow, size = (CALL if opcode == 0xE8 else JUMP), 5
                elif at > 1 and code[at - 2] == 0x0F and opcode & 0xF0 == 0x80:
                    flow, size = JUMP, 6
                else:
                    continue
                start = vaddr + at + 4 - size
                yield CallInstruction(start, size, flow, target, start)
        for slot in slots:
            if self.bits == 64:
                yield from self._through_at(code, vaddr, slot, _fields(code, vaddr, slot))
            else:
                yield from self._through_32(code, vaddr, slot)

    def _through_32(self, code: bytes, vaddr: int, slot: int) -> Iterator[CallInstruction]:
        field = slot.to_bytes(4, "little")
        yield from self._through_at(code, vaddr, slot, spots(code, field, 0, len(code)))
        base = self.registers.get("%ebx")
        if base is not None and base.kind == NUMBER:
            field = (slot - base.number & self.mask).to_bytes(4, "little")
            places = spots(code, field, 0, len(code))
            yield from self._through_at(code, vaddr, slot, places, by_address=False)

    def _through_at(
        self, code: bytes, vaddr: int, slot: int, places: Iterator[int], *, by_address: bool = True
    ) -> Iterator[CallInstruction]:
        for at in places:
            if at < 2 or code[at - 2] != 0xFF:
                continue
            kind = code[at - 1]
            is_right = kind in _CALLS or kind in _JUMPS
            if is_right and kind not in _INDEXED and (kind in _BY_ADDRESS) == by_address:
                flow = THROUGH if kind in _JUMPS else CALL_THROUGH
                yield CallInstruction(vaddr + at - 2, 6, flow, slot, vaddr + at - 2)


def _fields(code: bytes, vaddr: int, target: int) -> Iterator[int]:
    """Yield the positions of four bytes that are the distance from their end to `target`.

    Within a block of 64 KiB, the two upper bytes have only two values, so these are searched for.
    """
    size = len(code)
    for block in range(0, size, _BLOCK):
        distance = target - vaddr - block - 4
        for high in {distance >> 16 & 0xFFFF, distance - _BLOCK + 1 >> 16 & 0xFFFF}:
            end = min(block + _BLOCK + 3, size)
            for at in spots(code, high.to_bytes(2, "little"), block + 2, end):
                field = int.from_bytes(code[at - 2 : at + 2], "little", signed=True)
                if vaddr + at + 2 + field == target:
                    yield at - 2


def _cell(place: int | None) -> Value:
    return Value(UNKNOWN) if place is None else Value(CELL, place)


LISTER = X86Lister
