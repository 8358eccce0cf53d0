# SPDX-License-Identifier: Apache-2.0
"""Let one thread of a process call a function of it, while all others run.

What the function needs may be held by any of them (the locks of malloc and of the loader), so
they go on; the thread that makes the call is one that holds none of these itself (`fitness.py`).
It has a stack of its own for it, all its registers and errno are kept, and its signals wait.
"""

from __future__ import annotations

import _thread
import os
import time

from soscope.binfmt.elf import constants as elf
from soscope.entry import linkmap, ptrace
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.guest.fitness import Fitness
from soscope.entry.guest.sleeping import Sleeper
from soscope.entry.isa import arch
from soscope.entry.stop.borrowed import Borrowed
from soscope.entry.stop.reaper import is_traced
from soscope.entry.stop.tracee import Faulted, Gone, Tracee
from soscope.errors import FormatError, NoSuchProcess
from soscope.proc import status
from soscope.proc.reasons import Refused

_FINDING = 15.0  # seconds in which a thread has to be fit once; a processor may be lacking
_AWAITING = 0.2  # the same, for a thread to wait
_MOST_TAKEN = 16  # times that a thread takes a lock of the loader, one inside the other
_UNLOCKING = 1.0  # seconds
_LATER = 0.01  # seconds after the limit in which the call is certainly asked to stop
_GUARD = 4096  # bytes below the stack that are no memory
_PROT_NONE, _PROT_READ_WRITE = 0, 3
_MAPPED = 0x4022  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
_ERRNO = 4  # bytes
_NO_OFFSET = -(1 << 63)
_OPTIONS = ptrace.O_TRACEEXEC | ptrace.O_TRACESYSGOOD


class CallFault(Refused):
    """The function made a fault, or did not come back; the process goes on without its result."""


def call(
    visit: Visit,
    function: int,
    argument: bytes,
    trap: int,
    *,
    value: int | None = None,
    stack_size: int = 1 << 20,
    limit: float = 20.0,
    has_to_wait: bool = False,
) -> tuple[int, bytes]:
    """Have one thread of the process call `function(copy of argument)` while the others run.

    With `value`, it calls `function(value)`. `trap` is the address of a breakpoint instruction
    there, `limit` in seconds. `has_to_wait`: the thread has to be one that waits for something
    outside. Returns the result, signed, and the bytes of the argument afterwards. No thread is to
    be stopped; all run afterwards. Raises Refused where no thread is fit, or there is no memory;
    CallFault; Executed and NoSuchProcess where the program ends meanwhile; NotPermitted.
    """
    fitness = Fitness(visit, has_to_wait=has_to_wait)
    tid = fitness.stop(_AWAITING if has_to_wait else _FINDING)
    guest = _Guest(visit, tid, limit, value)
    try:
        visit.threads.resume(but=tid)
        return guest.run(function, argument, trap, stack_size)
    except Gone as error:
        if error.status >> 16 == ptrace.EVENT_EXEC or _let_go_of_successor(visit.pid):
            raise Executed("it has executed another program meanwhile") from error
        raise NoSuchProcess(f"process {visit.pid} has ended") from error
    except Faulted as error:
        if guest.has_overwritten:
            _make_again(tid)
        fitness.places.look()
        raise CallFault(_said(visit, tid, error, fitness.places.name(error.pc), limit)) from error
    except OSError as error:
        visit.check_same()
        raise Refused(f"a call in it: {error.strerror or error}") from error
    finally:
        visit.threads.resume()


def _said(visit: Visit, tid: int, error: Faulted, place: str, limit: float) -> str:
    if error.signal:
        said = f"what it called made a fault: signal {error.signal} in {place}"
    else:
        said = f"what it called did not come back within {limit:g} s: it is in {place}"
    users = visit.loader_users
    if 0 in users or status.inner_pid(tid) in users:
        said += "; its loader stays busy: a thread that loads a library later waits for ever"
    return said


def _make_again(tid: int) -> None:
    """Let a thread make its own call again, not go on: the kernel has forgotten with what.

    Its time-out begins anew; where it is not known which call it is, that says EINTR.
    """
    try:
        registers = arch.get_registers(tid)
        if arch.is_restarting(registers):
            arch.forget_restart(registers)
            arch.set_registers(tid, registers)
    except OSError:
        pass  # killed


def _let_go_of_successor(pid: int) -> bool:
    """Let go of the thread that has the number of the first, if it is ours; return whether it is.

    A thread that executes a program gets that number.
    """
    if not is_traced(pid, _thread.get_native_id()):
        return False
    try:
        done, state = os.waitpid(pid, ptrace.WALL | os.WNOHANG)
        if done and os.WIFSTOPPED(state):
            ptrace.detach(pid)
            return True
    except OSError:
        pass  # it has ended
    return False


class _Guest:
    """One call in the place of the stopped thread `tid`.

    `value` is what the function gets, None for the address of the argument's copy.
    `has_overwritten`: it was interrupted where it waited with a time-out; of what the thread
    waited for itself the kernel has then forgotten how to go on.
    """

    def __init__(self, visit: Visit, tid: int, limit: float, value: int | None) -> None:
        self.visit = visit
        self.tid = tid
        self.limit = limit
        self.value = value
        self.has_overwritten = False

    def run(self, function: int, argument: bytes, trap: int, stack_size: int) -> tuple[int, bytes]:
        """Borrow the thread for the call, and give it back all that it had."""
        with Borrowed(self.tid) as tracee:
            kept = tracee.registers()
            is_restarting = arch.is_restarting(kept)
            if not tracee.find_syscall(self.visit.facts.syscall_places()):
                raise Refused("no syscall instruction found")
            area, size = self._map(tracee, stack_size, len(argument))
            at = area + size - len(argument) & -64
            tracee.memory.write(at, argument)
            errno = self._errno(tracee, kept)
            ptrace.set_options(self.tid, _OPTIONS)
            vectors = arch.Vectors.of(self.tid)
            vectors.fresh().give(self.tid)
            try:
                end = time.monotonic() + self.limit + _LATER
                sleeper = Sleeper(tracee, end) if is_restarting else None
                given = at if self.value is None else self.value
                result = tracee.call(
                    function, given, at - 64 - 8, trap, limit=self.limit, on_syscall=sleeper
                )
                after = tracee.memory.read(at, len(argument))
                tracee.syscall(arch.NR_MUNMAP, area, size)
            except Faulted:
                self.has_overwritten = arch.is_restarting(tracee.registers())
                self._let_go_of_loader(tracee, at - 64 - 8, trap)
                # its memory stays: who knows where the function has left addresses of it
                vectors.give(self.tid)
                ptrace.set_options(self.tid, 0)
                self._put_errno(tracee, kept, errno)
                raise
            vectors.give(self.tid)
            ptrace.set_options(self.tid, 0)
            self._put_errno(tracee, kept, errno)
            return result, after

    def _map(self, tracee: Tracee, stack_size: int, argument_size: int) -> tuple[int, int]:
        """Map the stack, with a guard below and the argument above; return (address, bytes)."""
        size = _GUARD + (stack_size + argument_size + 4095 & -4096)
        area = tracee.syscall(arch.NR_MMAP, 0, size, _PROT_READ_WRITE, _MAPPED, -1, 0)
        if area < 0:
            raise Refused(f"no memory in it: {os.strerror(-area)}")
        tracee.syscall(arch.NR_MPROTECT, area, _GUARD, _PROT_NONE)
        return area, size

    def _let_go_of_loader(self, tracee: Tracee, stack: int, trap: int) -> None:
        """Release the loader's lock for a thread that is fetched out of a constructor.

        It is released as often as it was taken, since the thread did not have it before. The
        loader's lists are whole while constructors run; but in the loader itself nothing is sure.
        """
        pc = tracee.registers().pc
        if any(start <= pc < end for start, end in self.visit.loader_code):
            return
        locks = self.visit.loader_locks(self.tid)
        unlock = self._function("pthread_mutex_unlock") if locks else 0
        if not unlock:
            return
        try:
            for addr, count in locks:
                for _ in range(min(count, _MOST_TAKEN)):
                    tracee.call(unlock, addr, stack, trap, limit=_UNLOCKING)
        except Faulted:
            pass  # then it stays held, and is said to be

    def _function(self, name: str) -> int:
        """Return the address of a function of the process, 0 where it has none."""
        visit = self.visit
        debug = linkmap.read_debug(visit.memory, visit.facts.r_debug)
        for entry in linkmap.walk(visit.memory, debug.first if debug else 0):
            try:
                symbol = entry.image(visit.memory).symbol(name)
            except FormatError:
                continue  # what cannot be read is not called
            if symbol is not None and symbol.type == elf.STT_FUNC:
                return entry.load_bias + symbol.value
        return 0

    def _errno(self, tracee: Tracee, registers: arch.Registers) -> bytes:
        offset = self.visit.facts.errno_offset
        if offset == _NO_OFFSET:
            return b""
        return tracee.memory.read(registers.thread_pointer + offset, _ERRNO)

    def _put_errno(self, tracee: Tracee, registers: arch.Registers, errno: bytes) -> None:
        if errno:
            tracee.memory.write(registers.thread_pointer + self.visit.facts.errno_offset, errno)
