# SPDX-License-Identifier: Apache-2.0
"""Find where the C library of an emulated program keeps errno, without a call into it.

glibc reaches its own thread-local variables by GOT words that hold their offset from the thread
pointer. The file tells which variable of the TLS block such a word is for, and the offset of
`errno` in that block. The value of the word in the program's memory tells where the block is.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.slots import entries, tables
from soscope.binfmt.elf.symbols.lookup import Name
from soscope.entry.remote.convention import Convention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.stub import StoppedThread, WordMemory

_SIZE = 4  # bytes


class ErrnoPlace:
    """errno of the stopped thread. `is_known` is set when `find` has seen the C library.

    `thread` is the number of that thread, used if no register holds its thread pointer.
    """

    __slots__ = ("_convention", "_distance", "_memory", "_pointers", "_stub", "is_known", "thread")

    def __init__(self, stub: StoppedThread, memory: WordMemory, convention: Convention) -> None:
        self._stub = stub
        self._memory = memory
        self._convention = convention
        self._distance = 0
        self._pointers: dict[int, int] = {}  # thread pointers by thread
        self.thread = 0
        self.is_known = False

    def find(self, elf: ElfImage, load_bias: int) -> None:
        """Look for errno in an image that is relocated already. Raises FormatError."""
        if self.is_known or not all(
            name in self._stub.registers for name in self._convention.thread
        ):
            return
        at = _offset(elf)
        if at is None:
            return
        word = _word(elf)
        if word is not None:
            vaddr, offset = word
            self._distance = self._memory.word(vaddr + load_bias) - offset + at
            self.is_known = True

    def know(self, other: ErrnoPlace) -> None:
        """Take over the address of errno from the process that has forked this one."""
        self._distance, self.is_known = other._distance, other.is_known

    def learn(self) -> None:
        """Store the thread pointer, which soscope's code has put into a register at this place."""
        self._pointers[self.thread] = self._stub.get(self._convention.thread_at_call)

    def read(self) -> int:
        """Return the value of errno, 0 if its place is not known."""
        if not self.is_known:
            return 0
        bits = self._memory.coding.bits
        registers = self._convention.thread
        pointer = 0
        if self._convention.thread_at_call:
            pointer = self._pointers.get(self.thread, 0)
            if not pointer:
                return 0
        for name in registers:
            pointer = pointer << bits // len(registers) | self._stub.get(name)
        addr = pointer + self._distance & (1 << bits) - 1
        data = self._memory.read(addr, _SIZE)
        value = int.from_bytes(data, "little" if self._memory.coding.order == "<" else "big")
        for first, count, here in self._convention.errnos:
            if first <= value < first + count:
                return here + value - first
        return value


def _offset(elf: ElfImage) -> int | None:
    """Return the offset of errno in an image's TLS block, None if the image does not define it."""
    for entry in elf.symbols.named(Name(b"errno")):
        if entry.type == c.STT_TLS and entry.section != c.SHN_UNDEF:
            return entry.value
    return None


def _word(elf: ElfImage) -> tuple[int, int] | None:
    """Return a GOT word for a thread-local variable: its link-time address, and the variable.

    The variable is given by its offset in the TLS block. Return None if there is no such word.
    """
    arch = elf.header.arch if elf.header is not None else None
    kind = arch.relocations.tpoff if arch is not None else 0
    if not kind:
        return None
    coding = elf.encoding
    every = 0xFFFF_FFFF if coding.bits == 64 else 0xFF
    for table in tables(elf):
        has_addend = table[2]
        layout = coding.rela if has_addend else coding.rel
        for fields in layout.iter_unpack(entries(elf, table, (kind,))[0]):
            if fields[1] != kind & every:  # of another type, or for a symbol
                continue
            if has_addend:
                return fields[0], fields[2]
            return fields[0], coding.word.unpack(elf.read(fields[0], coding.word.size, ".got"))[0]
    return None
