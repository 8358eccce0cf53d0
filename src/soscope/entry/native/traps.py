# SPDX-License-Identifier: Apache-2.0
"""Breakpoints in the code of a native process, while its threads run."""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import Encoding, Segment
from soscope.entry.ptrace import RemoteMemory
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.native.machine import Displaced, NativeMachine, Values


# Memory for copies of instructions: the rest of a page behind an image's code.
#
# It is mapped, executable and unused. So nothing has to be mapped, for which a thread of the
# process would have to be stopped and made to call the kernel.

_PAGE = 4096


class _Cave(Record):
    start: int
    end: int
    before: bytes
    free: list[int]


class Caves:
    """Cells of `size` bytes in one process."""

    __slots__ = ("_caves", "_memory", "_size")

    def __init__(self, memory: RemoteMemory, size: int) -> None:
        self._memory = memory
        self._size = size
        self._caves: list[_Cave] = []

    def add(self, segments: list[Segment], bias: int) -> None:
        """Add the free memory of the image with these segments, whose code is mapped already."""
        loads = [each for each in segments if each.type == c.PT_LOAD]
        for each in loads:
            if not each.flags & c.PF_X or each.flags & c.PF_W or each.memsz != each.filesz:
                continue
            start = each.vaddr + each.filesz + 15 & -16
            end = each.vaddr + each.filesz + _PAGE - 1 & -_PAGE
            is_used = any(
                other is not each and other.vaddr < end and other.vaddr + other.memsz > start
                for other in loads
            )
            if is_used or end - start < self._size or self.has(start + bias):
                continue
            before = self._memory.read(start + bias, end - start)
            if len(before) == end - start:
                start, end = start + bias, end + bias
                free = list(range(start, end - self._size + 1, self._size))
                self._caves.append(_Cave(start, end, before, free))

    def has(self, start: int) -> bool:
        """Return whether the memory that begins at an address was added already."""
        return any(cave.start == start for cave in self._caves)

    def take(self, near: int) -> list[int]:
        """Return a free cell of each cave, the nearest first. The caller passes one to `keep`."""
        free = [cave.free[-1] for cave in self._caves if cave.free]
        return sorted(free, key=lambda at: abs(at - near))

    def keep(self, cell: int) -> None:
        """Mark a cell as used."""
        for cave in self._caves:
            if cave.start <= cell < cave.end:
                cave.free.remove(cell)

    def give(self, cell: int) -> None:
        """Take back a cell that no thread runs any more."""
        for cave in self._caves:
            if cave.start <= cell < cave.end:
                cave.free.append(cell)

    def spare(self) -> int | None:
        """Return the address of a byte that is in no copy, None if there is none."""
        return next((cave.free[0] for cave in self._caves if cave.free), None)

    def forget(self, start: int, end: int) -> None:
        """Drop the caves in memory that was unmapped."""
        self._caves = [cave for cave in self._caves if not start <= cave.start < end]

    def __contains__(self, addr: int) -> bool:
        """Return whether an address is in a cave."""
        return any(cave.start <= addr < cave.end for cave in self._caves)

    def copy_for(self, memory: RemoteMemory) -> Caves:
        """Return a copy for a forked process, whose memory is `memory`."""
        caves = Caves(memory, self._size)
        caves._caves = [cave.but(free=list(cave.free)) for cave in self._caves]
        return caves

    def places(self) -> list[tuple[int, bytes]]:
        """Return each cave's start address and its original bytes."""
        return [(cave.start, cave.before) for cave in self._caves]


# The memory of a traced native process, with words of the process's size and order.


class NativeMemory(RemoteMemory):
    """The memory of process `pid`, with the words of `coding`."""

    __slots__ = ("coding", "pid")

    def __init__(self, pid: int, coding: Encoding) -> None:
        """Open the memory.

        Raises OSError if that is not allowed.
        """
        super().__init__(pid)
        self.pid = pid
        self.coding = coding

    @property
    def descriptor(self) -> int:
        """The descriptor of its open file, whose offsets are addresses."""
        return self._descriptor

    def word(self, addr: int) -> int:
        """Return a word of the program, 0 if no memory is mapped there."""
        word = self.coding.word
        data = self.read(addr, word.size)
        return int(word.unpack(data)[0]) if len(data) == word.size else 0


# Only one byte or word of the code changes in place, so that no thread ever finds half of an
# instruction. A displaced instruction runs as a copy in the memory described above. So no
# breakpoint has to be removed for a step, and no thread has to be stopped.

_LONGEST = 15  # bytes of an instruction, at most


class Trap(Record):
    """One breakpoint at `addr`, which replaces the bytes `before`.

    `site` is the caller's object, None if only returns are expected here. `entry` is the caller's
    object for a function that begins here, independent of the rest. `away` is the address of the
    copy of the displaced `instruction`, 0 if there is none. If `is_back` is set, calls return
    here, and `open` counts calls that have not returned yet. `is_doubtful` is set if a thread may
    be at its end for another reason.
    """

    addr: int
    before: bytes
    site: object | None = None
    entry: object | None = None
    is_back: bool = False
    is_doubtful: bool = False
    instruction: Displaced | None = None
    code: bytes = b""
    away: int = 0
    open: int = 0


class Traps:
    """The breakpoints of one process by address (`at`), and by their copies (`copies`)."""

    __slots__ = ("_backs", "_before", "_machine", "_memory", "at", "caves", "copies")

    def __init__(self, memory: NativeMemory, machine: NativeMachine) -> None:
        self._memory = memory
        self._machine = machine
        self.caves = Caves(memory, machine.cell)
        self.at: dict[int, Trap] = {}
        self.copies: dict[int, Trap] = {}
        self._backs: dict[int, Trap] = {}  # oldest first
        # The original bytes of all traps that ever existed, as a child forked before a removal
        # still has the trap.
        self._before: dict[int, bytes] = {}

    def put(self, addr: int, site: object) -> Trap | None:
        """Put a breakpoint at `addr` for the caller's `site`. Return None if that is impossible."""
        trap = self.at.get(addr) or self._insert(addr)
        if trap is not None:
            trap.site = site
        return trap

    def put_back(self, addr: int, busy: set[Trap]) -> Trap | None:
        """Put a breakpoint at a return address.

        Return None if its instruction cannot be displaced. `busy` are traps whose copies a thread
        may be running.
        """
        trap = self._displacing(addr, busy)
        if trap is not None and not trap.is_back:
            trap.is_back = True
            self._backs[addr] = trap
        return trap

    def put_entry(self, addr: int, entry: object, busy: set[Trap]) -> Trap | None:
        """Put a breakpoint at a function's start, for the caller's `entry`.

        Return None if its instruction cannot be displaced. `busy` is as for `put_back`.
        """
        trap = self._displacing(addr, busy)
        if trap is not None:
            trap.entry = entry
        return trap

    def take_entry(self, addr: int) -> None:
        """Undo `put_entry`."""
        trap = self.at.get(addr)
        if trap is not None and trap.entry is not None:
            trap.entry = None
            if not trap.is_back and trap.site is None:
                self.remove(trap)

    def _displacing(self, addr: int, busy: set[Trap]) -> Trap | None:
        """Return the trap at `addr` once its displaced instruction can be executed, else None."""
        trap = self.at.get(addr)
        if trap is not None and trap.instruction is not None:
            return trap
        if trap is None:
            code = self._memory.read(addr, _LONGEST)
        else:
            size = len(trap.before)
            code = trap.before + self._memory.read(addr + size, _LONGEST - size)
        decoded = self._machine.decode(code)
        if decoded is None:
            return None
        away, copy = 0, b""
        if (trap is None or trap.site is None) and not self._machine.can_go(decoded):
            away, copy = self._room(code, decoded, addr, busy)
            if not away:
                return None
        new = trap or self._insert(addr, copy=(away, copy))
        if new is None:
            return None
        new.instruction, new.code, new.away = decoded, code[: decoded.size], away
        new.is_doubtful = self._machine.is_silent or decoded.size == 1
        if away:
            self.caves.keep(away)
            self.copies[away] = self.copies[away + decoded.size] = new
        return new

    def _room(
        self, code: bytes, decoded: Displaced, addr: int, busy: set[Trap]
    ) -> tuple[int, bytes]:
        """Return a cell for a copy, and the copy. The cell is 0 if none is suitable."""
        for again in range(2):
            for cell in self.caves.take(addr):
                copy = self._machine.copy(code, decoded, addr, cell)
                if copy is not None:
                    return cell, copy
            if again or not self._make_room(busy):
                break
        return 0, b""

    def _make_room(self, busy: set[Trap]) -> bool:
        """Remove the older half of the return traps that no open call needs."""
        idle = [
            trap
            for trap in self._backs.values()
            if not trap.open and trap.away and trap.site is trap.entry is None and trap not in busy
        ]
        for trap in idle[: len(idle) // 2 + 1]:
            self.remove(trap)
        return bool(idle)

    def _insert(self, addr: int, copy: tuple[int, bytes] = (0, b"")) -> Trap | None:
        machine = self._machine
        before = self._memory.read(addr, len(machine.trap))
        if len(before) < len(machine.trap) or before == machine.trap:
            return None  # a breakpoint of other code, or not readable
        try:
            if copy[0]:
                self._memory.write(*copy)
            self._memory.write(addr, machine.trap)
        except OSError:
            return None  # unmapped meanwhile
        self._before[addr] = before
        trap = self.at[addr] = Trap(addr, before, is_doubtful=machine.is_silent)
        return trap

    def remove(self, trap: Trap) -> None:
        """Remove a trap. A thread may have run into it, and its stop may not be reported yet."""
        self.at.pop(trap.addr, None)
        self._backs.pop(trap.addr, None)
        self._restore(self._memory.descriptor, trap.addr, trap.before)
        if trap.away:
            assert trap.instruction is not None
            del self.copies[trap.away], self.copies[trap.away + trap.instruction.size]
            self.caves.give(trap.away)

    def _restore(self, descriptor: int, addr: int, before: bytes) -> None:
        try:
            if os.pread(descriptor, len(before), addr) == self._machine.trap:
                os.pwrite(descriptor, before, addr)
        except OSError:
            pass  # the code is no longer mapped

    def remove_all(self) -> None:
        """Remove all traps. Copies stay, because a thread may be in one."""
        for trap in self.at.values():
            self._restore(self._memory.descriptor, trap.addr, trap.before)
        self.at.clear()
        self._backs.clear()

    def forget(self, start: int, end: int) -> list[Trap]:
        """Drop the traps in memory that was unmapped, and return them."""
        gone = [trap for addr, trap in self.at.items() if start <= addr < end]
        gone += [trap for trap in self.copies.values() if start <= trap.away < end]
        for trap in dict.fromkeys(gone):
            self.remove(trap)
        for addr in [addr for addr in self._before if start <= addr < end]:
            del self._before[addr]
        self.caves.forget(start, end)
        return gone

    def clean(self, descriptor: int) -> None:
        """Undo all changes in the memory of a forked child, which is open as a file."""
        for addr, before in self._before.items():
            self._restore(descriptor, addr, before)
        self.fill_caves(descriptor)

    def copy_for(self, memory: NativeMemory) -> Traps:
        """Return the traps of a forked process, whose memory is `memory`.

        They are corrected there: changes that were made since the fork are made in its memory,
        too. If this process has been killed meanwhile, the child keeps what it had at the fork.
        Raises OSError if the child's memory is gone.
        """
        copied = Traps(memory, self._machine)
        copied.caves = self.caves.copy_for(memory)
        copied._before = dict(self._before)
        for start, before in self.caves.places():
            now = self._memory.read(start, len(before))
            if now and os.pread(memory.descriptor, len(now), start) != now:
                os.pwrite(memory.descriptor, now, start)
        for addr, trap in self.at.items():
            size = len(trap.before)
            if os.pread(memory.descriptor, size, addr) == trap.before:
                if not self._memory.read(addr, size):
                    continue  # the child's parent was killed, with the data of the trap
                os.pwrite(memory.descriptor, self._machine.trap, addr)
            copied.at[addr] = trap.but(open=0)  # no call returns there yet
        for addr in self._before.keys() - self.at.keys():
            self._restore(memory.descriptor, addr, self._before[addr])
        copied._backs = {addr: copied.at[addr] for addr in self._backs if addr in copied.at}
        copied.copies = {
            away: copied.at[trap.addr]
            for away, trap in self.copies.items()
            if trap.addr in copied.at
        }
        return copied

    def put_again(self) -> None:
        """Undo `lift`."""
        ours = self._memory.descriptor
        for trap in self.at.values():
            try:
                if os.pread(ours, len(trap.before), trap.addr) == trap.before:
                    os.pwrite(ours, self._machine.trap, trap.addr)
            except OSError:
                continue  # the code is no longer mapped

    def lift(self) -> None:
        """Remove all traps for a while. A thread may have run into one before."""
        for trap in self.at.values():
            self._restore(self._memory.descriptor, trap.addr, trap.before)

    def is_shared(self, descriptor: int) -> bool | None:
        """Return whether `descriptor`, an open /proc/PID/mem, leads to this process's own memory.

        Return None if that is not known, because there is no free byte to change for a moment.
        """
        place, ours = self.caves.spare(), self._memory.descriptor
        if place is None:
            return None
        before = os.pread(ours, 1, place)
        if not before:
            return False  # the process was killed, and its memory is gone
        other = bytes((before[0] ^ 0xFF,))
        os.pwrite(ours, other, place)
        try:
            return os.pread(descriptor, 1, place) == other
        finally:
            os.pwrite(ours, before, place)

    def fill_caves(self, descriptor: int) -> None:
        """Restore the bytes in place of copies, when no thread is there any more."""
        for start, before in self.caves.places():
            try:
                if os.pread(descriptor, len(before), start) != before:
                    os.pwrite(descriptor, before, start)
            except OSError:
                continue  # no longer mapped
        if descriptor == self._memory.descriptor:
            self.copies.clear()

    def has_been(self, addr: int) -> bool:
        """Return whether a late stop at `addr` may come from a trap that was removed."""
        return addr in self._before and addr not in self.at

    def place_of(self, pc: int) -> int:
        """Return the original address for a thread in a copy, or `pc` if it is in none."""
        trap = self.copies.get(pc)
        return pc if trap is None else trap.addr + pc - trap.away

    def go(self, trap: Trap, values: Values) -> bool:
        """Set the registers `values` so that the thread goes on as if the trap did not exist.

        Return False if memory that its instruction needs is missing.
        """
        if trap.away:
            self._machine.move(values, trap.away)
            return True
        assert trap.instruction is not None
        return self._machine.go(trap.code, trap.instruction, trap.addr, values, self._memory)
