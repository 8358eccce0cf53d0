# SPDX-License-Identifier: Apache-2.0
"""Memory for the machine code of thunks, and chains of hooks and tracers on one slot."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from array import array
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PROT_EXEC, PROT_READ, PROT_WRITE

from soscope.entry.agent.resident import Resident, find
from soscope.entry.ptrace import RemoteMemory
from soscope.errors import HookError
from soscope.hooking.isa import code
from soscope.hooking.slots import Chosen, Pins
from soscope.model.record import Record
from soscope.proc import maps
from soscope.wire import layout

# Memory for soscope's machine code, and the functions that the code has for Python.
#
# The memory is never freed, because a thread may execute the code, or have its address in a
# register.

_FAILED = (1 << 64) - 1
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_EXCHANGE = ctypes.CFUNCTYPE(*[ctypes.c_uint64] * 4)


class Thunk(Record):
    """The code that one slot leads to. It is at `addr`, and its data is at `data`."""

    addr: int
    data: int

    @property
    def way(self) -> int:
        """The address of code that calls a tracer's trampoline only while its session lasts."""
        return self.addr + code.WAY

    def get(self, field: int) -> int:
        """Return a word of the data."""
        return _word(self.data + field).value

    def set(self, field: int, value: int) -> None:
        """Change a word of the data by a single store."""
        _word(self.data + field).value = value


class SharedCode:
    """The shared machine code of this process. `machine` makes it once."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._free: list[Thunk] = []
        base = self._map(code.TEXT_SIZE, code.CODE)
        self.base = base
        self.entry = base + code.NAMES["entry"]
        self.leave = base + code.NAMES["leave"]
        self.exchange = _EXCHANGE(base + code.NAMES["exchange"])
        self._write = _WRITE(base + code.NAMES["write"])
        self._iterate = self._libc.dl_iterate_phdr
        self._iterate.argtypes = (_WRITE, ctypes.c_void_p)
        check = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p).value
        _word(base + code.HOLDS_GIL).value = check or 0
        self.take_process()

    def _map(self, size: int, text: bytes) -> int:
        """Map memory that begins with a page of code. Raises HookError."""
        libc = self._libc
        libc.mmap.restype = ctypes.c_uint64
        libc.mmap.argtypes = (
            *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
            *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
        )
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        flags = MAP_PRIVATE | MAP_ANONYMOUS
        base: int = libc.mmap(None, size, PROT_READ | PROT_WRITE, flags, -1, 0)
        if base == _FAILED:
            raise _no_memory("map memory")
        ctypes.memmove(base, text, len(text))
        if libc.mprotect(base, code.PAGE, PROT_READ | PROT_EXEC):
            raise _no_memory("make memory executable")
        return base

    def take_process(self) -> None:
        """Set the pid of the process whose interpreter this is, also in a forked child."""
        _word(self.base + code.PID).value = os.getpid()

    def forget_threads(self) -> None:
        """Remove all threads but this one from the table. A forked child does not have them."""
        mine = threading.get_ident()  # pthread_self: the thread pointer
        table = self.base + code.TABLE
        words = (ctypes.c_uint64 * (code.ROWS * code.PLACES)).from_address(table)
        for at, word in enumerate(words):
            if word and word & ~1 != mine:
                words[at] = 0

    def is_busy(self) -> bool:
        """Return whether another thread is in a Python callable."""
        table = self.base + code.TABLE
        words = (ctypes.c_uint64 * (code.ROWS * code.PLACES)).from_address(table)
        mine = threading.get_ident()
        return any(word and word & ~1 != mine for word in words)

    def new_thunk(self) -> Thunk:
        """Return a thunk whose data is all zero. Raises HookError."""
        if not self._free:
            base = self._map(code.CHUNK_SIZE, code.thunks())
            self._free = [
                Thunk(base + index * code.THUNK_SIZE, base + code.PAGE + index * code.DATA_SIZE)
                for index in reversed(range(code.THUNKS))
            ]
        return self._free.pop()

    def write(self, bias: int, addr: int, old: int, new: int, *, prot: int) -> int | None:
        """Store `new` at `addr`, in the image with this load bias, if `old` is there now.

        It is a single store, under the loader's lock. `prot` is the protection that the page gets
        afterwards, 0 if the page is writable anyway. Returns the value before. Returns None if
        there is no such image, or if its page cannot be made writable.
        """
        page = addr & -code.PAGE
        request = struct.pack(
            code.REQUEST, bias & _FAILED, addr, old, new, 0, page, bool(prot), prot
        )
        buffer = ctypes.create_string_buffer(request, len(request))
        if self._iterate(self._write, ctypes.addressof(buffer)) <= 0:
            return None
        seen: int = struct.unpack(code.REQUEST, buffer.raw)[4]
        return seen


def _word(addr: int) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(addr)


def read_word(addr: int) -> int:
    """Return the word at an address, which must be mapped."""
    return _word(addr).value


def _no_memory(what: str) -> HookError:
    number = ctypes.get_errno()
    return HookError(f"cannot {what}: {os.strerror(number)}", errno=number)


_machine: SharedCode | None = None


def machine() -> SharedCode:
    """Return the machine code of this process. The first call makes it. Raises HookError."""
    global _machine  # noqa: PLW0603  one for the process
    if _machine is None:
        if struct.calcsize("P") != 8 or sys.platform != "linux" or os.uname().machine != code.UNAME:
            raise HookError("soscope.hook works only on Linux on x86-64")
        try:
            _machine = SharedCode()
        except (AttributeError, OSError) as error:  # for example in a static interpreter
            raise HookError(f"this interpreter cannot hook: {error}") from error
    return _machine


# Agents of `soscope trace` in this process, whose trampolines may be in the same slots.
#
# Another process inserts and removes an agent while all threads are stopped and no thread holds the
# loader's locks. This module only reads the agent's memory. It changes a word in the agent's list
# of changes, or in a trampoline's data, by an atomic exchange.

_ORIGINAL = 8  # offset of the original function's address in a trampoline's data
_MOST = 16  # most trampolines of an agent behind one another


class Tracers:
    """The agents in this process. It is also a context manager."""

    def __init__(self) -> None:
        pid = int(os.readlink("/proc/self"))
        self._memory = RemoteMemory(pid)
        try:
            residents = find(self._memory, maps.read(pid))
            self.agents = [agent for agent in residents if agent.is_known]
        except BaseException:
            self._memory.close()
            raise

    def __enter__(self) -> Tracers:  # noqa: PYI034  typing is slow to import
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.close()

    def owner_of(self, value: int) -> Resident | None:
        """Return the agent whose entry trampoline or counter `value` is, None if there is none."""
        for agent in self.agents:
            if agent.leads_on(value):
                return agent
        return None

    def before(self, slot: int, trampoline: int) -> int | None:
        """Return the slot's value before an agent stored `trampoline` there, None if unknown."""
        agent = self.owner_of(trampoline)
        if agent is None:
            return None
        for _, before, after in self._changes(agent, slot):
            if after == trampoline:
                return before
        return None

    def stands(self, slot: int, trampoline: int) -> bool:
        """Return whether a trampoline may be put into a slot.

        Its agent must have recorded the change of the slot and must not be on its way out, so
        that the removal of the agent will restore the slot.
        """
        agent = self.owner_of(trampoline)
        is_known = agent is not None and self.before(slot, trampoline) is not None
        return is_known and agent is not None and not self._is_going(agent)

    def session(self, value: int) -> tuple[int, int]:
        """Return the address of the session count of a trampoline's agent, and the count."""
        agent = self.owner_of(value)
        assert agent is not None
        at = agent.base + layout.BLOB_DATA + layout.INSIDE.offset("sessions")
        return at, agent.fields["sessions"]

    def replace(self, slot: int, thunk: int, by: int) -> None:
        """Make agents that would put `thunk` back into a slot at their removal put `by` there."""
        field = layout.CHANGE.offset("before")
        for agent in self.agents:
            for at, before, _ in self._changes(agent, slot):
                if before == thunk:
                    machine().exchange(at + field, thunk, by)

    def bind(self, trampoline: int, unbound: int, definition: int) -> None:
        """Store the function in a trampoline's data, as the loader does for an unbound slot."""
        agent = self.owner_of(trampoline)
        value = trampoline
        for _ in range(_MOST):
            if agent is None or self.owner_of(value) is not agent:
                return
            at = value + layout.BLOB_DISTANCE + _ORIGINAL
            if machine().exchange(at, unbound, definition) == unbound:
                return
            value = self._memory.word(at)

    def _is_going(self, agent: Resident) -> bool:
        """Return whether an agent is being removed, or was removed."""
        agent.look()
        at = agent.fields["control"] + layout.CONTROL.offset("command")
        command = self._memory.read(at, 4)
        is_told = command == layout.COMMAND_STOP.to_bytes(4, "little")
        return not agent.is_hooked or is_told

    def _changes(self, agent: Resident, slot: int) -> list[tuple[int, int, int]]:
        """Return (address, old word, new word) of an agent's changes of a slot, newest first."""
        agent.look()
        fields = array("Q", agent.journal())
        words = layout.CHANGE.size // 8
        first, addrs = agent.fields["changes"], fields[::words]
        size = layout.CHANGE.size
        return [
            (first + at * size, fields[at * words + 1], fields[at * words + 2])
            for at in range(len(addrs) - 1, -1, -1)
            if addrs[at] == slot
        ]


# Hooked slots. Several hooks may be nested in a slot, with trampolines of tracers in between.
#
# The last hook is called first. The hooks may end in any order. When a hook ends, the value that
# was in the slot before it is put back. If another hook or a tracer has changed the slot since, the
# value that it will put back is corrected instead.

_MOST_TRIES = 100

_of_thunk: dict[int, HookedSlot] = {}  # address of a thunk -> the last slot that had it
_spare: dict[tuple[int, str, int], list[Thunk]] = {}  # unused thunks that lead to a slot's function


class HookedSlot:
    """A slot of a hook: its value before the hook (`before`), and the `thunk` that it leads to now.

    If `before` is the trampoline of a tracer, `below` is the value for the slot after the tracer
    has gone.
    """

    __slots__ = ("before", "below", "chosen", "is_active", "thunk")

    def __init__(self, chosen: Chosen, thunk: Thunk) -> None:
        self.chosen = chosen
        self.thunk = thunk
        self.before = self.below = chosen.value
        self.is_active = True
        _of_thunk[thunk.addr] = self

    def aim(self, tracers: Tracers) -> None:
        """Make the thunk call the slot's present value as its original."""
        chosen, thunk = self.chosen, self.thunk
        self.before = self.below = value = chosen.value
        original = chosen.definition
        before = tracers.before(chosen.addr, value)
        if before is not None:
            self.below = standing(before)
            if self.below in _of_thunk:
                original = self.below
            at, count = tracers.session(value)
            thunk.set(code.SESSION_AT, at)
            thunk.set(code.SESSION, count)
            thunk.set(code.TRACED, value)
            thunk.set(code.UNTRACED, original)
            original = thunk.way
        elif value in _of_thunk or chosen.is_hooked:  # a hook of soscope or of another tool
            original = value
        thunk.set(code.ORIGINAL, original)

    def store(self, tracers: Tracers, pins: Pins) -> bool:
        """Make the slot lead to its thunk. Return whether that was possible."""
        chosen = self.chosen
        for _ in range(_MOST_TRIES):
            seen = self.exchange(pins, chosen.value, self.thunk.addr)
            if seen is None:
                return False
            if seen == chosen.value:
                break
            chosen.value = seen  # bound by the loader, or changed by a tracer
            chosen.is_unbound, chosen.is_hooked = True, False
            with Tracers() as now:
                self.aim(now)
        if self.below not in (self.before, chosen.definition):
            tracers.bind(self.before, self.below, chosen.definition)
        return True

    def look_again(self, pins: Pins) -> None:
        """Store the thunk again if a thread that was binding the slot has stored the function."""
        self.exchange(pins, self.chosen.definition, self.thunk.addr)

    def exchange(self, pins: Pins, old: int, new: int) -> int | None:
        """Store `new` in the slot if it contains `old`. Return the value before.

        Return None if the image was unloaded, or if its page cannot be made writable.
        """
        chosen = self.chosen
        if not pins.hold(chosen.place):
            return None
        prot = pins.protection(chosen.addr)
        if prot is None:
            return None
        return machine().write(chosen.place.bias, chosen.addr, old, new, prot=prot)

    def end(self) -> None:
        """Make all calls go to the original, also from threads that have the thunk's address."""
        self.is_active = False
        self.thunk.set(code.TARGET, self.thunk.get(code.ORIGINAL))
        self.thunk.set(code.ACTIVE, 0)

    def restore(self, pins: Pins, tracers: Tracers) -> None:
        """Restore the slot's value.

        If a later hook or tracer has changed the slot, correct the value that it will restore
        instead.
        """
        addr, thunk = self.chosen.addr, self.thunk.addr
        under = standing(self.below)
        for _ in range(_MOST_TRIES):
            put = under
            if self.before != self.below and tracers.stands(addr, self.before):
                put = self.before
            seen = self.exchange(pins, thunk, put)
            if seen is None:
                return
            if seen == thunk:
                if put != under and not tracers.stands(addr, put):  # the tracer has gone meanwhile
                    self.exchange(pins, put, under)
                return
            with Tracers() as now:
                now.replace(addr, thunk, under)
            if self.exchange(pins, thunk, thunk) != thunk:
                return


def standing(value: int) -> int:
    """Return `value`, or the value before it if it is the thunk of a hook that has ended."""
    while value in _of_thunk and not _of_thunk[value].is_active:
        value = _of_thunk[value].below
    return value


def new_slot(chosen: Chosen, symbol: str) -> HookedSlot:
    """Return a slot with a thunk that leads nowhere yet. Raises HookError."""
    spare = _spare.get((chosen.addr, symbol, chosen.definition))
    return HookedSlot(chosen, spare.pop() if spare else machine().new_thunk())


def keep_thunk(slot: HookedSlot, symbol: str) -> None:
    """Keep a thunk for the next hook of the slot. Only threads that execute it still know it."""
    _spare.setdefault((slot.chosen.addr, symbol, slot.chosen.definition), []).append(slot.thunk)
