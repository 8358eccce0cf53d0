# SPDX-License-Identifier: Apache-2.0
"""The interface of an instruction set for breakpoints in native processes."""

from __future__ import annotations

import ctypes
from abc import abstractmethod

from soscope.binfmt.stubs.finder import Through
from soscope.entry.remote.convention import Convention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from soscope.entry.native.traps import NativeMemory
    from soscope.entry.ptrace import RemoteMemory
else:
    Protocol = object

Values = ctypes.Array[ctypes.c_uint64]


class Displaced(Protocol):
    """An instruction of `size` bytes that a breakpoint will displace."""

    @property
    def size(self) -> int:
        """Its length in bytes."""


class NativeMachine:
    """One kind of processes, by machine and word size.

    `registers` maps names to indices in the words of `values`. `floats` maps other names to
    (offset, size) in the `floats_size` bytes of the floating-point registers. `apart` maps names
    to the kinds (NT_… of <elf.h>) of register sets with a single word. `word_set` and `float_set`
    are the kinds of the first two sets, 0 if the kernel has special requests for them. `pc` and
    `sp` are indices in `values`. `pc_offset` is the offset of the program counter in `struct
    user`, if it can be set alone.

    `trap` are the bytes of a breakpoint. A thread that has stopped at one is `trap_length` bytes
    behind its address. `is_silent` is set if a thread that has not run into it may be there, too.
    A copy of an instruction has up to `cell` bytes. `making` are the system calls that make
    threads and processes. `restarts` is set if a system call that soscope's stop has ended can be
    repeated.
    """

    __slots__ = ("bits", "convention", "mask", "word_size")

    trap: bytes
    trap_length: int
    is_silent: bool
    cell: int
    pc: int
    sp: int
    pc_offset = 0
    register_count: int
    registers: dict[str, int]
    word_set = 0
    floats: dict[str, tuple[int, int]]
    floats_size: int
    float_set = 0
    apart: dict[str, int]
    making: tuple[int, ...]
    restarts: bool

    def __init__(self, convention: Convention, bits: int) -> None:
        self.convention = convention
        self.bits = bits
        self.word_size = bits // 8
        self.mask = (1 << bits) - 1

    # ---- displaced instructions ----

    @abstractmethod
    def decode(self, code: bytes) -> Displaced | None:
        """Return the instruction at the start of `code`, None if it must stay in place."""

    @abstractmethod
    def can_go(self, decoded: Displaced) -> bool:
        """Return whether an instruction needs no copy, because `go` has its whole effect."""

    @abstractmethod
    def copy(self, code: bytes, decoded: Displaced, addr: int, place: int) -> bytes | None:
        """Return code for `place` with the effect of the instruction at `addr`, which then goes on.

        Return None if it would not reach from there.
        """

    @abstractmethod
    def go(
        self, code: bytes, decoded: Displaced, addr: int, values: Values, memory: RemoteMemory
    ) -> bool:
        """Apply the effect of an instruction at `addr` to the registers `values` and to the stack.

        Return False if memory that it needs is missing. Then nothing is changed.
        """

    @abstractmethod
    def move(self, values: Values, pc: int) -> None:
        """Set the registers `values` so that the thread goes on at `pc`, from any place."""

    # ---- calls ----

    @abstractmethod
    def return_addr(self, values: Values, memory: RemoteMemory) -> int:
        """Return the return address of a function that is about to begin, 0 if it is unreadable."""

    @abstractmethod
    def leave(
        self, site: Through, before: bytes, values: Values, memory: NativeMemory
    ) -> tuple[int, int, bool] | None:
        """Do what the call site with the bytes `before` does, except for the program counter.

        Return where its thread goes on, the call's return address, and whether the call goes
        through the slot. Return None if memory is missing. Then nothing is changed.
        """
