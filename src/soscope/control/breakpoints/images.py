# SPDX-License-Identifier: Apache-2.0
"""Images of a program that is traced by breakpoints: memory, slots, errno."""

from __future__ import annotations

import os
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import Relocations, is_bound_now
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.imports import Names
from soscope.binfmt.elf.lookup import Name
from soscope.binfmt.elf.reader import Encoding
from soscope.binfmt.elf.sections import Sections, relative_words
from soscope.binfmt.elf.slots import entries, symbols_of, tables
from soscope.binfmt.isa import part
from soscope.binfmt.source import BufferSource, ByteSource
from soscope.entry.remote.convention import Convention
from soscope.errors import FormatError, RemoteError
from soscope.live.images.linkmaps import Linked
from soscope.model.arch import Arch
from soscope.proc import maps
from soscope.proc.memory import ProcessMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.stub import StoppedThread, WordMemory


# Find where the C library of an emulated program keeps errno, without a call into it.
#
# glibc reaches its own thread-local variables by GOT words that hold their offset from the thread
# pointer. The file tells which variable of the TLS block such a word is for, and the offset of
# `errno` in that block. The value of the word in the program's memory tells where the block is.

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
        value = int.from_bytes(data, self._memory.coding.byteorder)
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


# The memory of an emulated program, which lies in its emulator's at a fixed distance.

_RESERVED = "---"  # reserved by an emulator for 32-bit programs


class GuestMemory(ByteSource):
    """Reads and writes the memory, whatever access the program itself has to its pages.

    `base` is the host's address of the program's address 0.
    """

    __slots__ = ("_descriptor", "_memory", "base", "coding", "pid")

    def __init__(self, pid: int, coding: Encoding, base: int) -> None:
        """Open the memory of the emulator's process. Raises RemoteError if that is not allowed."""
        super().__init__(f"the program in process {pid}")
        self.pid = pid
        self.coding = coding
        self.base = base
        try:
            self._memory = ProcessMemory(pid)
            self._descriptor = os.open(f"/proc/{pid}/mem", os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            reason = (error.strerror or "").lower()
            raise RemoteError(
                f"the emulator's memory cannot be opened: {reason}",
                hint="as for ptrace(2): /proc/sys/kernel/yama/ptrace_scope must be 0 or 1",
            ) from error

    def close(self) -> None:
        """Close the memory. May be called twice."""
        self._memory.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at the program's address `offset`."""
        if offset < 0:
            return b""
        return self._memory.read(self.base + offset, size)

    def word(self, addr: int) -> int:
        """Return a word of the program, 0 if no memory is mapped there."""
        word = self.coding.word
        data = self.read(addr, word.size)
        return int(word.unpack(data)[0]) if len(data) == word.size else 0

    def write_word(self, addr: int, value: int) -> bool:
        """Set a word of the program. Return whether that succeeded."""
        mask = (1 << self.coding.bits) - 1
        return self.write(addr, self.coding.word.pack(value & mask))

    def write(self, addr: int, data: bytes) -> bool:
        """Write some bytes. Return whether that succeeded."""
        try:
            return os.pwrite(self._descriptor, data, self.base + addr) == len(data)
        except OSError:
            return False  # nothing is mapped there

    def is_free(self, start: int, end: int) -> bool:
        """Return whether nothing can be read at the program's addresses [start, end)."""
        first, last = self.base + start, self.base + end
        return all(
            each.end <= first or each.start >= last or each.flags.startswith(_RESERVED)
            for each in maps.read(self.pid)
        )


def base_of(pid: int, file: str, addr: int) -> int:
    """Return the host's address of the program's address 0.

    `addr` is the program's address of the beginning of `file`. Raises RemoteError if the emulator
    has not mapped the file.
    """
    wanted = os.stat(file).st_ino
    starts = [each.start for each in maps.read(pid) if not each.offset and each.inode == wanted]
    if not starts:
        raise RemoteError(f"{file} is not in the emulator's memory")
    return min(starts) - addr


# Images of an emulated program: the file of each, and its slots for function calls.

_LOCAL_ENTRY = 5  # ELFv2: bits of st_other with the local entry's distance
_GOT = (".got", ".toc")
_MOST_FILE = 1 << 30
_FUNCTIONS = ("function", "ifunc", "none")


class CalledSlot:
    """A slot that leads to a function. `addr` is its address in the program.

    `relocation` is the address of its relocation's r_offset, 0 if the loader will not fill the
    slot any more. `is_call` is set if the slot is used only for calls. `is_code` is set if it
    holds code, not an address, and `is_entry` if calls go through that code.
    """

    __slots__ = ("addr", "is_call", "is_code", "is_entry", "relocation", "symbol", "version")

    def __init__(
        self, addr: int, symbol: str, version: str, *, relocation: int, is_call: bool
    ) -> None:
        self.addr = addr
        self.symbol = symbol
        self.version = version
        self.relocation = relocation
        self.is_call = is_call
        self.is_code = False
        self.is_entry = False


class CountedWords(NamedTuple):
    """Slots that the loader finds by counting, at their addresses in the program.

    `start` is the address of the first of `words` words. `number` is the address of the number of
    words before it. `unbound` are the addresses of those that the loader has not bound yet.
    """

    start: int
    words: int
    number: int
    unbound: list[int]


class LoadedElf:
    """One image: `elf` is its file, `linked` the loader's entry, `index` its record's index.

    `processes` is the number of processes that have it. A forked process has the images of its
    parent.
    """

    def __init__(self, elf: ElfImage, linked: Linked, path: str, *, is_main: bool) -> None:
        self.elf = elf
        self.linked = linked
        self.path = path
        # named as the importer named it, which may be a link
        self.name = os.path.basename(path if is_main else linked.path or path)
        self.is_main = is_main
        self.index = -1
        self.processes = 1
        self.is_late = False  # loaded while the program was running
        loads = [segment for segment in elf.segments if segment.type == c.PT_LOAD]
        self.start = linked.load_bias + min((each.vaddr for each in loads), default=0)
        self.end = linked.load_bias + max((each.vaddr + each.memsz for each in loads), default=0)

    @classmethod
    def open(cls, linked: Linked, path: str, *, is_main: bool) -> LoadedElf:
        """Read the file at `path`. Raises FormatError, OSError."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size > _MOST_FILE:
                raise FormatError(f"{path}: larger than any image", field="size", offset=0)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                elf = ElfImage.from_source(BufferSource(file.read(), path))
        finally:
            os.close(descriptor)
        return cls(elf, linked, path, is_main=is_main)

    def contains(self, addr: int) -> bool:
        """Return whether an address of the program lies in the image."""
        return self.start <= addr < self.end

    def defines(self, symbol: str) -> bool:
        """Return whether the image exports a function of this name."""
        try:
            return self.elf.symbols.addr(symbol) is not None
        except FormatError:
            return False  # without readable symbols it exports nothing

    def addr_of(self, symbol: str) -> int:
        """Return the program's address of a symbol of the image, 0 if it has none."""
        try:
            value = self.elf.symbols.addr(symbol)
        except FormatError:
            return 0  # the same as above
        return 0 if value is None else value + self.linked.load_bias

    def entry_of(self, symbol: str, *, local: bool) -> int:
        """Return the address that all calls of one of the image's functions run through.

        It is 0 if there is none. With `local`, calls from inside the image may enter the function
        behind its first instructions.
        """
        addr = self.addr_of(symbol)
        if not addr or not local:
            return addr
        symbols = self.elf.symbols
        for index in symbols.indices_named(os.fsencode(symbol)):
            if symbols.array.row(index)[4] + self.linked.load_bias == addr:
                return addr + self.behind_entry(symbols.array.row(index)[2])
        return addr

    @staticmethod
    def behind_entry(other: int) -> int:
        """Return the distance from a function's global entry to its local one, by `st_other`."""
        power = other >> _LOCAL_ENTRY & 7
        return 1 << power & ~3 if power > 1 else 0

    def code_of(self, addr: int) -> int:
        """Return the address of a function's code, from the descriptor at `addr`."""
        vaddr, word = addr - self.linked.load_bias, self.elf.encoding.word
        code = relative_words(self.elf).get(vaddr)
        if code is None:
            code = word.unpack(self.elf.read(vaddr, word.size, ".opd"))[0]
        return code + self.linked.load_bias

    def first_code(self) -> int:
        """Return the address of the image's first code that runs after loading, 0 if none runs.

        Raises FormatError.
        """
        init = self.elf.dynamic.get(c.DT_INIT)
        if init:
            return init + self.linked.load_bias
        array, size = self.elf.dynamic.get(c.DT_INIT_ARRAY), self.elf.dynamic.get(c.DT_INIT_ARRAYSZ)
        if not array or not size:
            return 0
        word = self.elf.encoding.word
        told = relative_words(self.elf).get(array)
        if told is None:
            told = word.unpack(self.elf.read(array, word.size, "DT_INIT_ARRAY"))[0]
        return told + self.linked.load_bias if told else 0

    def unlike(self, arch: Arch) -> str:
        """Return why the image's calls are of an unsupported kind on `arch`, "" if they are not."""
        beside = part(arch, "slots")
        if beside is None or not hasattr(beside, "unlike"):
            return ""
        return str(beside.unlike(self.elf))

    def counted_words(self, memory: WordMemory) -> CountedWords | None:
        """Return the slots that the loader finds by counting, or None if it does not count."""
        beside = part(self.elf.header.arch if self.elf.header else None, "slots")
        if beside is None or not hasattr(beside, "counted"):
            return None
        counted = beside.counted(self.elf)
        if counted is None:
            return None
        bias = self.linked.load_bias
        start, count, number, helpers = counted
        unbound = [
            vaddr + bias
            for vaddr, helper in helpers.items()
            if memory.word(vaddr + bias) == helper + bias
        ]
        return CountedWords(start + bias, count, number + bias, unbound)

    def slots(self, arch: Arch) -> list[CalledSlot]:
        """Return the slots that lead to functions, each once. Raises FormatError."""
        types = arch.relocations
        elf, bias = self.elf, self.linked.load_bias
        sections = Sections.read(elf)
        filled = Relocations(elf, arch, sections).read()
        kinds = (types.jump_slot, types.glob_dat, *arch.implied)
        wanted = [
            each
            for each in filled
            if each.kind in kinds or (each.kind in types.words and _is_got(sections, each.vaddr))
        ]
        names = Names(elf, [each.symbol for each in wanted]).named
        places = {} if is_bound_now(elf) else self._places(arch)
        slots, called = [], set()
        for vaddr, kind, symbol, _, _ in wanted:
            text, version, symbol_type, is_here, _ = names[symbol]
            if not text or symbol_type not in _FUNCTIONS:
                continue
            is_call = kind == types.jump_slot or kind == arch.stubbed > 0
            if is_call:
                called.add(text)
            elif is_here or symbol_type == "none":
                continue  # the PLT's own word, or not known to be a function
            place = places.get(vaddr, 0) if is_call else 0
            slot = CalledSlot(bias + vaddr, text, version or "", relocation=place, is_call=is_call)
            slot.is_code = self._is_code(vaddr)
            slot.is_entry = is_call and slot.is_code
            slots.append(slot)
        slots += self._in_code()
        # A slot that only holds the address of a function which is called through another slot is
        # not needed.
        return [slot for slot in slots if slot.is_call or slot.symbol not in called]

    def _in_code(self) -> list[CalledSlot]:
        """Return words in code that hold the addresses of functions, one for each function."""
        elf = self.elf
        flags = elf.dynamic.get(c.DT_FLAGS) or 0
        if elf.dynamic.get(c.DT_TEXTREL) is None and not flags & c.DF_TEXTREL:
            return []
        places: dict[int, int] = {}
        for table in tables(elf):
            if not table[3]:
                for vaddr, symbol in symbols_of(elf, table):
                    if symbol and symbol not in places and self._is_code(vaddr):
                        places[symbol] = vaddr
        slots = []
        for symbol, (text, version, kind, is_here, _) in Names(elf, [*places]).named.items():
            if symbol in places and text and kind in ("function", "ifunc") and not is_here:
                addr = self.linked.load_bias + places[symbol]
                slot = CalledSlot(addr, text, version or "", relocation=0, is_call=True)
                slot.is_code = True
                slots.append(slot)
        return slots

    def _is_code(self, vaddr: int) -> bool:
        """Return whether a link-time address is executable, as the BSS PLT of PowerPC is."""
        return any(
            segment.type == c.PT_LOAD
            and segment.flags & c.PF_X
            and 0 <= vaddr - segment.vaddr < segment.memsz
            for segment in self.elf.segments
        )

    def _places(self, arch: Arch) -> dict[int, int]:
        """Return the addresses of the r_offset fields of lazily bound slots, by slot vaddr."""
        elf = self.elf
        shift_mask = 0xFFFF_FFFF if elf.encoding.bits == 64 else 0xFF
        places = {}
        for table in tables(elf):
            _, _, has_addend, in_plt = table
            if not in_plt:
                continue
            layout = elf.encoding.rela if has_addend else elf.encoding.rel
            data, starts = entries(elf, table)
            for at, fields in zip(starts, layout.iter_unpack(data), strict=True):
                if fields[1] & shift_mask == arch.relocations.jump_slot:
                    places[fields[0]] = self._addr_of_offset(at)
        return places

    def _addr_of_offset(self, offset: int) -> int:
        for segment in self.elf.segments:
            if segment.type == c.PT_LOAD and 0 <= offset - segment.offset < segment.filesz:
                return offset - segment.offset + segment.vaddr + self.linked.load_bias
        return 0


def _is_got(sections: Sections, vaddr: int) -> bool:
    """Return whether a word is in the GOT, so that it is no other pointer to a function."""
    section = sections.containing(vaddr)
    return section is not None and section.name.startswith(_GOT)
