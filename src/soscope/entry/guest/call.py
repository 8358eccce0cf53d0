# SPDX-License-Identifier: Apache-2.0
"""Let one thread of a process call one of its functions, while all others run.

Any thread may hold a lock that the function needs (the locks of malloc and of the loader), so the
threads go on. The thread that makes the call must hold none of these locks itself (`fitness.py`).
It gets its own stack for the call, all its registers and errno are kept, and its signals are held
back.
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
from soscope.proc.status import Refused

_FINDING = 15.0  # seconds to find a fit thread; processors may be scarce
_AWAITING = 0.2  # the same, for a thread that waits
_MOST_TAKEN = 16  # nested locks of the loader's mutex by a thread, at most
_UNLOCKING = 1.0  # seconds
_LATER = 0.01  # seconds after the limit, when the call has been asked to stop
_GUARD = 4096  # bytes of the guard page below the stack
_PROT_NONE, _PROT_READ_WRITE = 0, 3
_MAPPED = 0x4022  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
_ERRNO = 4  # bytes
_NO_OFFSET = -(1 << 63)
_OPTIONS = ptrace.O_TRACEEXEC | ptrace.O_TRACESYSGOOD


class CallFault(Refused):
    """The function faulted or did not return. The process goes on without its result."""


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
    """Let a thread of the process call `function(copy of argument)` while the others run.

    With `value`, the call is `function(value)`. `trap` is the address of a breakpoint instruction
    in the process, and `limit` is in seconds. With `has_to_wait` the thread must be one that
    waits for something outside. Returns the signed result, and the bytes of the argument
    afterwards. No thread may be stopped before, and all run afterwards.

    Raises Refused if no thread is fit or there is no memory, CallFault, Executed and
    NoSuchProcess if the program ends meanwhile, and NotPermitted.
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
    """Let a thread repeat its own system call, because the kernel has lost the restart data.

    Its time-out begins again. If the call is not known, it returns EINTR.
    """
    try:
        registers = arch.get_registers(tid)
        if arch.is_restarting(registers):
            arch.forget_restart(registers)
            arch.set_registers(tid, registers)
    except OSError:
        pass  # the process was killed


def _let_go_of_successor(pid: int) -> bool:
    """Detach from the thread that has taken the first thread's number, if soscope traces it.

    A thread that executes a program gets that number. Return whether soscope traced it.
    """
    if not is_traced(pid, _thread.get_native_id()):
        return False
    try:
        done, state = os.waitpid(pid, ptrace.WALL | os.WNOHANG)
        if done and os.WIFSTOPPED(state):
            ptrace.detach(pid)
            return True
    except OSError:
        pass  # the process or thread has ended
    return False


class _Guest:
    """One call in the stopped thread `tid`.

    `value` is the function's argument, None for the address of the argument's copy.
    `has_overwritten` is set if the call was interrupted while it waited with a time-out. The
    kernel has then lost the data to restart the system call in which the thread itself was
    waiting.
    """

    def __init__(self, visit: Visit, tid: int, limit: float, value: int | None) -> None:
        self.visit = visit
        self.tid = tid
        self.limit = limit
        self.value = value
        self.has_overwritten = False

    def run(self, function: int, argument: bytes, trap: int, stack_size: int) -> tuple[int, bytes]:
        """Borrow the thread for the call, and restore its state afterwards."""
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
                # Its memory stays mapped, because the function may have stored addresses of it
                # anywhere.
                vectors.give(self.tid)
                ptrace.set_options(self.tid, 0)
                self._put_errno(tracee, kept, errno)
                raise
            vectors.give(self.tid)
            ptrace.set_options(self.tid, 0)
            self._put_errno(tracee, kept, errno)
            return result, after

    def _map(self, tracee: Tracee, stack_size: int, argument_size: int) -> tuple[int, int]:
        """Map the stack, with a guard below and the argument above. Return (address, bytes)."""
        size = _GUARD + (stack_size + argument_size + 4095 & -4096)
        area = tracee.syscall(arch.NR_MMAP, 0, size, _PROT_READ_WRITE, _MAPPED, -1, 0)
        if area < 0:
            raise Refused(f"no memory in it: {os.strerror(-area)}")
        tracee.syscall(arch.NR_MPROTECT, area, _GUARD, _PROT_NONE)
        return area, size

    def _let_go_of_loader(self, tracee: Tracee, stack: int, trap: int) -> None:
        """Release the loader's lock for a thread that is taken out of a constructor.

        It is released as often as it was taken, since the thread did not hold it before. The
        loader's lists are consistent while constructors run. In the loader's own code nothing is
        certain, so nothing is released there.
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
            pass  # the lock stays locked, as the error tells

    def _function(self, name: str) -> int:
        """Return the address of a function of the process, 0 if it has none."""
        visit = self.visit
        debug = linkmap.read_debug(visit.memory, visit.facts.r_debug)
        for entry in linkmap.walk(visit.memory, debug.first if debug else 0):
            try:
                symbol = entry.image(visit.memory).symbol(name)
            except FormatError:
                continue  # an unreadable image is skipped
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
