# SPDX-License-Identifier: Apache-2.0
"""Where the C library of an emulated program keeps errno, found without a call into it.

glibc reaches its own thread-local variables by words that hold their distance from the thread
pointer. Its file says which variable of its block such a word is about, and where `errno` lies in
that block; the word in the program's memory says where the block is.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.relocations import entries, tables
from soscope.binfmt.elf.symbols.lookup import Name
from soscope.entry.remote.convention import Convention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.faces import StoppedThread, WordMemory

_SIZE = 4  # bytes


class ErrnoPlace:
    """errno of the thread that has stopped. `is_known` when `find` has seen the C library.

    `thread` is the number of that thread, where no register has its pointer.
    """

    __slots__ = ("_convention", "_distance", "_memory", "_pointers", "_stub", "is_known", "thread")

    def __init__(self, stub: StoppedThread, memory: WordMemory, convention: Convention) -> None:
        self._stub = stub
        self._memory = memory
        self._convention = convention
        self._distance = 0
        self._pointers: dict[int, int] = {}  # of threads
        self.thread = 0
        self.is_known = False

    def find(self, elf: ElfImage, load_bias: int) -> None:
        """Look into an image, which the program has relocated. Raises FormatError."""
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
        """Take it to be where that is of the process that has forked this one."""
        self._distance, self.is_known = other._distance, other.is_known

    def learn(self) -> None:
        """Hear that the thread stands where code of ours has left its pointer."""
        self._pointers[self.thread] = self._stub.get(self._convention.thread_at_call)

    def read(self) -> int:
        """Return its value, 0 where it is not known."""
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
    """Return where an image has errno in its block of thread-local variables, None: nowhere."""
    for entry in elf.symbols.named(Name(b"errno")):
        if entry.type == c.STT_TLS and entry.section != c.SHN_UNDEF:
            return entry.value
    return None


def _word(elf: ElfImage) -> tuple[int, int] | None:
    """Return the link-time address of such a word, and which byte of the block it is about."""
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
            if fields[1] != kind & every:  # of another type, or about a symbol
                continue
            if has_addend:
                return fields[0], fields[2]
            return fields[0], coding.word.unpack(elf.read(fields[0], coding.word.size, ".got"))[0]
    return None
