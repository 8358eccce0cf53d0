# SPDX-License-Identifier: Apache-2.0
"""AArch64: registers, breakpoints, and displaced instructions.

Breakpoints are written as a whole word while threads run, like the kernel's own uprobes: a thread
that is there at that moment runs either instruction. A thread that has run into a breakpoint and
one that has not are both at its address.

A jump to a function leaves its kind in BTYPE of PSTATE, and guarded code (BTI) can be entered in
this way only at its landing marks. A thread that soscope moves on has not jumped, so BTYPE is
cleared.
"""

from __future__ import annotations

import os

from soscope.binfmt.isa.aarch64 import code as i
from soscope.binfmt.isa.aarch64.code import SIZE, A64Instruction
from soscope.binfmt.stubs.finder import Through
from soscope.entry.native.machine import Displaced, NativeMachine, Values
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.conventions import convention_of
from soscope.model.arch import Arch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.native.traps import NativeMemory
    from soscope.entry.ptrace import RemoteMemory

_NT_PRSTATUS, _NT_FPREGSET, _NT_ARM_TLS = 1, 2, 0x401  # <elf.h>

# `struct user_regs_struct` of <sys/user.h>
_REGISTERS = (*(f"x{number}" for number in range(31)), "sp", "pc", "cpsr")
_LINK, _SP, _PC, _STATE = 30, 31, 32, 33
_ZERO = 31  # as a register number: always 0
_BTYPE = 3 << 10

# `struct user_fpsimd_struct`: 32 registers, fpsr, fpcr, padding
_FLOATS_SIZE, _VALUE = 528, 16

_NEAR = 1 << 27  # bytes that a jump reaches
_B = 0x14000000
_WORD = (1 << 64) - 1


class A64Machine(NativeMachine):
    """Processes of 64-bit AArch64."""

    __slots__ = ()

    trap = (0xD4200000).to_bytes(SIZE, "little")  # brk #0
    trap_length = 0
    is_silent = True
    cell = 2 * SIZE
    pc, sp = _PC, _SP
    register_count = len(_REGISTERS)
    registers = {name: number for number, name in enumerate(_REGISTERS)}  # noqa: RUF012  is read alone
    word_set = _NT_PRSTATUS
    floats = {f"v{number}": (number * _VALUE, _VALUE) for number in range(32)}  # noqa: RUF012  as above
    floats_size = _FLOATS_SIZE
    float_set = _NT_FPREGSET
    apart = {"TPIDR_EL0": _NT_ARM_TLS}  # noqa: RUF012  as above
    making = (220, 435)  # clone, clone3
    restarts = False  # the kernel has lost the first argument by then

    def __init__(self, convention: Convention) -> None:
        super().__init__(convention, 64)

    # ---- displaced instructions ----

    def decode(self, code: bytes) -> A64Instruction | None:
        """Return the instruction at the start of `code` (see `NativeMachine.decode`)."""
        decoded = i.decode(code)
        return None if decoded is None or decoded.kind == i.UNFIT else decoded

    def can_go(self, decoded: Displaced) -> bool:
        """Return whether the instruction uses the program counter or has no effect."""
        assert isinstance(decoded, A64Instruction)
        return decoded.kind != i.PLAIN

    def copy(self, code: bytes, decoded: Displaced, addr: int, place: int) -> bytes | None:
        """Return the instruction and a jump back (see `NativeMachine.copy`)."""
        back = addr - place
        if not -_NEAR < back < _NEAR:
            return None
        return code[: decoded.size] + (_B | back >> 2 & 0x3FFFFFF).to_bytes(SIZE, "little")

    def go(
        self, code: bytes, decoded: Displaced, addr: int, values: Values, memory: RemoteMemory
    ) -> bool:
        """Apply an instruction that uses the program counter (see `NativeMachine.go`)."""
        assert isinstance(decoded, A64Instruction)
        kind, end, to = decoded.kind, addr + SIZE, addr + decoded.number
        pc = end
        if kind == i.PAGE:
            self._fill(values, decoded.register, (addr & ~0xFFF) + decoded.number)
        elif kind == i.ADDRESS:
            self._fill(values, decoded.register, to)
        elif kind == i.LITERAL:
            size = 8 if decoded.word >> 30 == 1 else 4
            data = memory.read(to, size)
            if len(data) < size:
                return False
            is_signed = decoded.word >> 30 == 2
            number = int.from_bytes(data, "little", signed=is_signed)
            self._fill(values, decoded.register, number)
        elif kind == i.BRANCH or (kind != i.REGISTER and self._holds(decoded, values)):
            pc = to
        elif kind == i.REGISTER:
            pc = self._held(values, decoded.word >> 5 & 31)
        if decoded.links:
            values[_LINK] = end
        self.move(values, pc)
        return True

    def move(self, values: Values, pc: int) -> None:
        """Set the program counter (see `NativeMachine.move`)."""
        values[_PC] = pc & _WORD
        values[_STATE] = values[_STATE] & ~_BTYPE

    @staticmethod
    def _fill(values: Values, register: int, value: int) -> None:
        if register != _ZERO:
            values[register] = value & _WORD

    @staticmethod
    def _held(values: Values, register: int) -> int:
        return 0 if register == _ZERO else values[register]

    def _holds(self, decoded: A64Instruction, values: Values) -> bool:
        """Return whether a branch is taken."""
        word, value = decoded.word, self._held(values, decoded.register)
        if decoded.kind == i.COMPARE:
            value &= _WORD if word >> 31 else 0xFFFF_FFFF
            return (value != 0) == bool(word >> 24 & 1)
        if decoded.kind == i.TEST:
            bit = word >> 31 << 5 | word >> 19 & 31
            return value >> bit & 1 == word >> 24 & 1
        if decoded.kind != i.CONDITION:
            return False
        negative, zero, carry, overflow = (values[_STATE] >> bit & 1 for bit in (31, 30, 29, 28))
        holds = (
            zero,
            carry,
            negative,
            overflow,
            carry and not zero,
            negative == overflow,
            negative == overflow and not zero,
            True,
        )[word >> 1 & 7]
        return bool(holds) != (word & 15 in range(1, 15, 2))

    # ---- calls ----

    def return_addr(self, values: Values, memory: RemoteMemory) -> int:
        """Return the link register."""
        return values[_LINK]

    def leave(
        self, site: Through, before: bytes, values: Values, memory: NativeMemory
    ) -> tuple[int, int, bool] | None:
        """Load the page address, as a stub begins, or branch to a register (`NativeMachine.leave`).

        The rest of a stub runs in place, so that it leaves the values that the resolver reads.
        """
        if site.register < 0:
            decoded = self.decode(before)
            assert decoded is not None
            return_addr = values[_LINK]
            self.go(before, decoded, site.vaddr, values, memory)
            return values[_PC], return_addr, True
        target = values[site.register]
        is_one = os.pread(memory.descriptor, SIZE * 2, site.slot) == target.to_bytes(8, "little")
        if site.is_call:
            values[_LINK] = site.vaddr + SIZE
        return target, values[_LINK], is_one


def machine(arch: Arch) -> NativeMachine | None:
    """Return the machine for processes of `arch`, None if they are 32-bit ones."""
    convention = convention_of(arch)
    return None if convention is None else A64Machine(convention)
