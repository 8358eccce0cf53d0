# SPDX-License-Identifier: Apache-2.0
"""What breakpoints in native processes ask of an instruction set, whatever it is."""

from __future__ import annotations

import ctypes
from abc import abstractmethod

from soscope.binfmt.stubs.through import Through
from soscope.entry.remote.convention import Convention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from soscope.entry.memory import RemoteMemory
    from soscope.entry.native.memory import NativeMemory
else:
    Protocol = object

Values = ctypes.Array[ctypes.c_uint64]


class Displaced(Protocol):
    """An instruction of `size` bytes that a breakpoint is to stand on."""

    @property
    def size(self) -> int:
        """Its length in bytes."""


class NativeMachine:
    """One kind of processes. `registers` has the places of all in the words that `values` has.

    `floats` are the (offset, size) of others in the `floats_size` bytes of those for floating-point
    numbers, `apart` the kinds (NT_… of <elf.h>) of sets of one word that have a set of their own.
    `word_set` and `float_set` are the kinds of the first two; 0: the kernel has requests for them.
    `pc` and `sp` are places in `values`, `pc_offset` that of the program counter in `struct user`,
    where it can be set alone.

    `trap` are the bytes of a breakpoint, behind whose address a thread stands `trap_length` bytes
    when it has stopped there; `is_silent`: one that has not run into it may stand there, too. A
    copy of an instruction has up to `cell` bytes. `making` are the system calls that make threads
    and processes. `restarts`: a system call that our stop has ended can be made again.
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

    # ---- what a breakpoint displaces ----

    @abstractmethod
    def decode(self, code: bytes) -> Displaced | None:
        """Return the instruction that `code` begins with; None: it has to stay where it is."""

    @abstractmethod
    def can_go(self, decoded: Displaced) -> bool:
        """Return whether an instruction needs no copy, as `go` does all that it does."""

    @abstractmethod
    def copy(self, code: bytes, decoded: Displaced, addr: int, place: int) -> bytes | None:
        """Return what does at `place` the same as the instruction at `addr`, and goes on behind it.

        None where it would not reach from there.
        """

    @abstractmethod
    def go(
        self, code: bytes, decoded: Displaced, addr: int, values: Values, memory: RemoteMemory
    ) -> bool:
        """Do what an instruction at `addr` does to the registers `values`, and to the stack.

        Return False where memory that it needs is not there: then nothing is done.
        """

    @abstractmethod
    def move(self, values: Values, pc: int) -> None:
        """Have the registers `values` go on at `pc`, wherever they have come from."""

    # ---- calls ----

    @abstractmethod
    def return_addr(self, values: Values, memory: RemoteMemory) -> int:
        """Return where a function returns to that is about to begin; 0: memory is missing."""

    @abstractmethod
    def leave(
        self, site: Through, before: bytes, values: Values, memory: NativeMemory
    ) -> tuple[int, int, bool] | None:
        """Do what the call site does that has the bytes `before`, but for the program counter.

        Return where its thread goes on, where the call returns to, and whether it is one through
        the slot; None where memory is missing: then nothing is done.
        """
