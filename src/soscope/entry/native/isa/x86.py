# SPDX-License-Identifier: Apache-2.0
"""x86-64, and i386 on its kernel: registers, breakpoints, and displaced instructions.

A displaced instruction never runs in place, because no other thread may pass there meanwhile. It
runs as a copy followed by a jump back, or is emulated here if it sets the program counter.
"""

from __future__ import annotations

import os

from soscope.binfmt.isa.x86 import code as i
from soscope.binfmt.isa.x86.code import SIZE as THROUGH_SIZE
from soscope.binfmt.isa.x86.code import Instruction
from soscope.binfmt.stubs.finder import Through
from soscope.entry.native.machine import Displaced, NativeMachine, Values
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.conventions import I386, x86_64
from soscope.model.arch import Arch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.native.traps import NativeMemory
    from soscope.entry.ptrace import RemoteMemory

CELL = 32  # bytes of a copy at most: an instruction and a 14-byte jump
_NEAR = (1 << 31) - 256

# `struct user_regs_struct` of <sys/user.h>, which ptrace(2) fills in for 32-bit processes, too.
_REGISTERS = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags "
    "rsp ss fs_base gs_base ds es fs gs"
).split()
_NUMBERED = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
COUNT = len(_REGISTERS)
PC, SP = _REGISTERS.index("rip"), _REGISTERS.index("rsp")
_FLAGS, _FS, _GS = (_REGISTERS.index(name) for name in ("eflags", "fs_base", "gs_base"))
_BY_NUMBER = [_REGISTERS.index(name) for name in _NUMBERED]

# `struct user_fpregs_struct`: the area of FXSAVE
FLOATS_SIZE = 512
_ST_AT, _XMM_AT, _VALUE = 32, 160, 16

_CARRY, _PARITY, _ZERO, _SIGN, _OVERFLOW = (1 << bit for bit in (0, 2, 6, 7, 11))

_MAKING = {64: (56, 57, 58, 435), 32: (2, 120, 190, 435)}  # clone, fork, vfork, clone3

# Its registers have the names that a 64-bit kernel uses.
_I386 = I386.but(
    pc="rip",
    sp="rsp",
    result="rax",
    result_upper="rdx",
    words_of_result=("rax", "rdx"),
    result_float="st0",
    result_x87="st0",
    result_top="",
    number="rax",
    words_of_system=(),
)


class X86Machine(NativeMachine):
    """x86-64 or i386, by `bits`."""

    __slots__ = ("making", "restarts")

    trap = b"\xcc"
    trap_length = 1
    is_silent = False
    cell = CELL
    pc, sp = PC, SP
    pc_offset = PC * 8
    register_count = COUNT
    registers = {name: number for number, name in enumerate(_REGISTERS)}  # noqa: RUF012  is read alone
    floats = {  # noqa: RUF012  as above
        "st0": (_ST_AT, 10),
        **{f"xmm{number}": (_XMM_AT + number * _VALUE, 8) for number in range(8)},
    }
    floats_size = FLOATS_SIZE
    apart: dict[str, int] = {}  # noqa: RUF012  as above

    def __init__(self, convention: Convention, bits: int) -> None:
        super().__init__(convention, bits)
        self.making = _MAKING[bits]
        self.restarts = bits == 64

    # ---- displaced instructions ----

    def decode(self, code: bytes) -> Instruction | None:
        """Return the instruction at the start of `code`, None if it must stay in place."""
        decoded = i.decode(code, self.bits)
        return None if decoded is None or decoded.kind == i.UNFIT else decoded

    def can_go(self, decoded: Displaced) -> bool:
        """Return whether the instruction sets the program counter."""
        assert isinstance(decoded, Instruction)
        return decoded.kind != i.PLAIN

    def copy(self, code: bytes, decoded: Displaced, addr: int, place: int) -> bytes | None:
        """Return it with an adjusted displacement, and a jump back (see `NativeMachine.copy`)."""
        assert isinstance(decoded, Instruction)
        data = bytearray(code[: decoded.size])
        if decoded.relative:
            number = int.from_bytes(
                data[decoded.relative : decoded.relative + 4], "little", signed=True
            )
            moved = number + addr - place
            if not -_NEAR < moved < _NEAR:
                return None
            data[decoded.relative : decoded.relative + 4] = moved.to_bytes(4, "little", signed=True)
        back, end = addr + decoded.size, place + decoded.size + 5
        if self.bits == 32:
            return bytes(data) + b"\xe9" + (back - end & self.mask).to_bytes(4, "little")
        if -_NEAR < back - end < _NEAR:
            return bytes(data) + b"\xe9" + (back - end).to_bytes(4, "little", signed=True)
        return bytes(data) + b"\xff\x25" + bytes(4) + back.to_bytes(8, "little")

    def go(
        self, code: bytes, decoded: Displaced, addr: int, values: Values, memory: RemoteMemory
    ) -> bool:
        """Apply a call, a jump or a return (see `NativeMachine.go`)."""
        assert isinstance(decoded, Instruction)
        end = addr + decoded.size
        kind, size = decoded.kind, self.word_size
        if kind in (i.CALL, i.JUMP):
            target: int | None = end + decoded.number
        elif kind == i.BRANCH:
            target = end + (decoded.number if self._holds(decoded.opcode, values[_FLAGS]) else 0)
        elif kind == i.RETURN:
            target = self._read(memory, values[SP])
        else:
            target = self._operand(code, decoded, end, values, memory)
        if target is None:
            return False
        if kind in (i.CALL, i.CALL_AT):
            if not self._push(values, end, memory):
                return False
        elif kind == i.RETURN:
            values[SP] = values[SP] + size + decoded.number & self.mask
        values[PC] = target & self.mask
        return True

    def move(self, values: Values, pc: int) -> None:
        """Set the program counter."""
        values[PC] = pc

    def return_addr(self, values: Values, memory: RemoteMemory) -> int:
        """Return the word on top of the stack."""
        return self._read(memory, values[SP]) or 0

    def leave(
        self, site: Through, before: bytes, values: Values, memory: NativeMemory
    ) -> tuple[int, int, bool] | None:
        """Read the slot, and push the return address of a call (see `NativeMachine.leave`)."""
        size = self.word_size
        target = int.from_bytes(os.pread(memory.descriptor, size, site.slot), "little")
        if not site.is_call:
            return target, self.return_addr(values, memory), True
        return_addr = site.vaddr + THROUGH_SIZE
        return (target, return_addr, True) if self._push(values, return_addr, memory) else None

    def _push(self, values: Values, word: int, memory: RemoteMemory) -> bool:
        """Push a word. Return whether there is memory for it."""
        sp = values[SP] - self.word_size & self.mask
        try:
            memory.write(sp, word.to_bytes(self.word_size, "little"))
        except OSError:
            return False  # stack overflow, or the process has ended
        values[SP] = sp
        return True

    def _read(self, memory: RemoteMemory, addr: int) -> int | None:
        data = memory.read(addr & self.mask, self.word_size)
        return int.from_bytes(data, "little") if len(data) == self.word_size else None

    @staticmethod
    def _holds(opcode: int, flags: int) -> bool:
        """Return whether a condition holds: the low 4 bits of an opcode (SDM 1, appendix B)."""
        sign_differs = bool(flags & _SIGN) != bool(flags & _OVERFLOW)
        holds = (
            flags & _OVERFLOW,
            flags & _CARRY,
            flags & _ZERO,
            flags & (_CARRY | _ZERO),
            flags & _SIGN,
            flags & _PARITY,
            sign_differs,
            sign_differs or flags & _ZERO,
        )[opcode >> 1 & 7]
        return bool(holds) != bool(opcode & 1)

    def _operand(
        self, code: bytes, decoded: Instruction, end: int, values: Values, memory: RemoteMemory
    ) -> int | None:
        """Return the word of the operand that a ModRM byte selects, None if it is not known."""
        at = decoded.modrm
        prefixes = code[: at - 1]
        rex = prefixes[-1] if self.bits == 64 and prefixes and prefixes[-1] & 0xF0 == 0x40 else 0
        mode, number = code[at] >> 6, code[at] & 7
        if mode == 3:
            return values[_BY_NUMBER[number | (rex & 1) << 3]]
        place, at = 0, at + 1
        if number == 4:
            scale, index, number = code[at] >> 6, code[at] >> 3 & 7, code[at] & 7
            at += 1
            index |= (rex & 2) << 2
            if index != 4:
                place = values[_BY_NUMBER[index]] << scale
            has_base = mode or number != 5
        else:
            has_base = mode or number != 5
            if not has_base and self.bits == 64:
                place = end
        if has_base:
            place += values[_BY_NUMBER[number | (rex & 1) << 3]]
        width = 1 if mode == 1 else 4 if mode == 2 or not has_base else 0
        place += int.from_bytes(code[at : at + width], "little", signed=True)
        if b"\x64" in prefixes or b"\x65" in prefixes:
            if self.bits == 32:
                return None  # only the selector tells which segment that is
            place += values[_FS if b"\x64" in prefixes else _GS]
        return self._read(memory, place)


_MACHINES = {64: X86Machine(x86_64("st0"), 64), 32: X86Machine(_I386, 32)}


def machine(arch: Arch) -> NativeMachine | None:
    """Return the machine for processes of `arch`, None if it is x32."""
    if arch.has_agent:
        return _MACHINES[64]
    return _MACHINES[32] if arch.bits == 32 and arch.unames else None
