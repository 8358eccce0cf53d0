# SPDX-License-Identifier: Apache-2.0
"""Let one thread of a process call a function of it, while all others run."""

from __future__ import annotations

import _thread
import os
import time

from soscope.binfmt.elf import constants as elf
from soscope.entry import loader, ptrace, seccomp
from soscope.entry.agent.visit import Executed, Visit
from soscope.entry.guest import frames as kinds
from soscope.entry.guest.frames import CodePlaces
from soscope.entry.isa import arch
from soscope.entry.stopping import SeizedThread, is_traced
from soscope.entry.tracee import Borrowed, Faulted, Gone, Tracee
from soscope.errors import FormatError, NoSuchProcess
from soscope.proc import status
from soscope.proc.status import Refused

# Find a stopped thread that may call a function: it holds no lock of its libraries.
#
# Loading a library takes the locks of the loader and of malloc. A thread may hold malloc's lock, or
# be in the middle of malloc without it, if
#
# - its code is in the C library, or in an image that defines malloc instead;
# - it waits in a system call that these make, too (a lock's futex, mmap, brk, madvise, …);
# - a signal handler has interrupted it there.
#
# So a thread is fit if it waits for something from outside, or if its code is in any other image,
# and if it has no signal frame on its stack. A thread in code of no image is not fit: JIT code soon
# enters its runtime's code, and in an emulator all code is of this kind, malloc included.

_PAUSE, _LONGEST_PAUSE = 0.0005, 0.008
_IDLE_FOR = 1.0  # seconds in which a loader should be idle
_BEFORE = 16  # bytes before a program counter
_FRAMES = 8192  # bytes of a stack with the callers of a recent call
_MOST_TOLD = 4

_WHERE = {
    kinds.LIBC: "it is in the C library",
    kinds.LOADER: "it is in the loader",
    kinds.ALLOCATOR: "it is in an image that defines malloc",
    kinds.AGENT: "it is in the agent",
    kinds.NOBODY: "it is in code of no image",
}


class Fitness:
    """Searches a fit thread in a visited process, and keeps the reasons why others are not fit."""

    __slots__ = ("_has_to_wait", "_visit", "places")

    def __init__(self, visit: Visit, *, has_to_wait: bool = False) -> None:
        """With `has_to_wait`, a thread is fit only while it waits for something from outside."""
        self._visit = visit
        self._has_to_wait = has_to_wait
        self.places = CodePlaces(visit)

    def stop(self, limit: float) -> int:
        """Stop the process when one of its threads is fit, and return that thread.

        All threads are stopped then. Raises Refused, NotPermitted and NoSuchProcess with all of
        them running.
        """
        visit = self._visit
        end = time.monotonic() + limit
        pause = _PAUSE
        while True:
            visit.stop(idle_for=_IDLE_FOR, limit=limit)
            try:
                self.places.look()
                tid, why = self._choose()
            except BaseException:
                visit.threads.resume()
                raise
            if tid:
                return tid
            visit.threads.resume()
            if time.monotonic() > end:
                raise Refused(f"no thread of it is where it can load a library: {why}")
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    def _choose(self) -> tuple[int, str]:
        """Return the stopped thread that is disturbed least, or 0 and the reason if none is fit."""
        by_tid = self._visit.threads.registers()
        stopped = self._visit.threads.stopped
        ranked = sorted(by_tid, key=lambda tid: _rank(stopped[tid], by_tid[tid]))
        if any(thread.was_stopped for thread in stopped.values()):
            return self._choose_of_suspended(ranked, by_tid)
        reasons = []
        for tid in ranked:
            objection = self._state_objection(by_tid[tid]) or self._kind_objection(tid)
            if objection is None:
                return tid, ""
            reasons.append(f"thread {tid}: {objection}")
        return 0, _some(reasons)

    def _choose_of_suspended(
        self, ranked: list[int], by_tid: dict[int, arch.Registers]
    ) -> tuple[int, str]:
        """Return a fit thread and the reason, as `_choose`, if the other threads will not run.

        No thread may hold a lock then.
        """
        fit, reasons = 0, []
        if self._visit.loader_users:
            return 0, "it is stopped, and its loader is busy"
        for tid in ranked:
            objection = self._state_objection(by_tid[tid])
            if objection is not None:
                reasons.append(f"it is stopped, and thread {tid} would have to run: {objection}")
            elif not fit and self._kind_objection(tid) is None:
                fit = tid
        if reasons or not fit:
            return 0, _some(reasons) or "it is stopped"
        return fit, ""

    def _state_objection(self, registers: arch.Registers) -> str | None:
        """Return why a thread may hold a lock at its position, None if it cannot."""
        places = self.places
        kind = places.kind(registers.pc)
        if kind in (kinds.AGENT, kinds.LOADER):
            return self._said(kind, registers)
        before = self._visit.memory.read(registers.pc - _BEFORE, _BEFORE)
        is_outside = arch.waits_outside(registers, before)
        if not is_outside and kind != kinds.PLAIN:
            return self._said(kind, registers)
        if self._has_to_wait and not is_outside:
            return "it does not wait"
        # The called function takes the interpreter's lock, which is in an image's data. A thread
        # that waits for such a lock may be in the middle of taking it.
        lock = arch.lock_waited_for(registers) if self._has_to_wait else 0
        if lock and places.is_data_of_image(lock):
            return "it waits for another thread"
        stack = places.stack(registers.sp)
        if not stack.data:
            return "it has no stack"
        is_pause = is_outside and not arch.waits_outside(registers, before, lends_pauses=False)
        # The program's own allocator may wait for its locks in this way.
        if is_pause and self._comes_from_allocator(stack, registers):
            return self._said(kinds.ALLOCATOR, registers)
        if places.handlers(stack, registers.sp):
            return "it is in a signal handler"
        return None

    def _said(self, kind: int, registers: arch.Registers) -> str:
        said = _WHERE.get(kind, "it is elsewhere")
        call = ""
        if arch.waits(registers):
            call = f", in system call {int(registers.orig_rax)}"
        return f"{said} ({self.places.name(registers.pc)}{call})"

    def _comes_from_allocator(self, stack: kinds.Stack, registers: arch.Registers) -> bool:
        first = registers.sp - stack.start & -8
        words = memoryview(stack.data[first : first + _FRAMES & -8]).cast("Q")
        places = self.places
        return places.kind(registers.pc) == kinds.ALLOCATOR or any(
            places.kind(word) == kinds.ALLOCATOR for word in set(words) if 4096 < word < 1 << 47
        )

    def _kind_objection(self, tid: int) -> str | None:
        """Return why a thread must not make calls, None if it may."""
        try:
            fields = status.read_status(tid)
            if status.inner_pid(tid) in self._visit.loader_users:
                return "it is in dlopen, dlclose, dl_iterate_phdr or a constructor"
            if status.has_shadow_stack(fields):
                return "it has a shadow stack"
            counts = seccomp.suspects(self._visit.pid, [tid])
        except NoSuchProcess:
            return "it has ended"
        if tid not in counts:
            return None
        if self._visit.filtered.get(tid) != counts[tid]:
            return "it has a seccomp filter"
        return seccomp.objection_to_loading(list(seccomp.of_stopped(tid)))


def _rank(thread: SeizedThread, registers: arch.Registers) -> int:
    """Return how much a thread is disturbed by a call. The least is 0."""
    if not arch.waits(registers):
        return 3
    if arch.is_restarting(registers) or arch.lock_waited_for(registers):
        return 2  # the thread's calls must be watched, or other threads may be involved
    return min(thread.rank, 1)


def _some(reasons: list[str]) -> str:
    told = "; ".join(reasons[:_MOST_TOLD])
    left = len(reasons) - _MOST_TOLD
    return f"{told}; and {left} more" if left > 0 else told


# Sleep for a function called in a borrowed thread, to keep the thread's own restart data.
#
# A thread that waits in poll, nanosleep or a futex with a time-out goes on with restart_syscall(2)
# after a stop, and the kernel stores the data for that in the thread. nanosleep and clock_nanosleep
# overwrite the data even if nothing interrupts them. So soscope skips these calls in the thread,
# and sleeps itself instead.

_ABSOLUTE = 1  # TIMER_ABSTIME
_CLOCKS = (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)
_NS = 1_000_000_000
_TIMESPEC = 16  # bytes
_SLICE = 0.05  # seconds


class Sleeper:
    """Called at the begin and the end of each system call. It sleeps until `end` at most.

    `end` is a time of time.monotonic(), not earlier than the limit of `run_to_trap`. Raises Gone.
    """

    __slots__ = ("_end", "_is_inside", "_tracee", "_until")

    def __init__(self, tracee: Tracee, end: float) -> None:
        self._tracee = tracee
        self._end = end
        self._is_inside = False
        self._until: float | None = None

    def __call__(self) -> None:
        """Handle the system call at which the thread is stopped."""
        self._is_inside = not self._is_inside
        registers = self._tracee.registers()
        if self._is_inside:
            self._until = self._wish(registers)
            if self._until is not None:
                arch.skip_syscall(registers)
                self._tracee.set_registers(registers)
        elif self._until is not None:
            while (left := self._until - time.monotonic()) > 0:
                if time.monotonic() > self._end:
                    ptrace.interrupt(self._tracee.tid)  # the thread goes no further than this
                    break
                time.sleep(min(left, _SLICE))
                self._tracee.registers()  # raises Gone if it was killed
            self._until = None
            arch.set_result(registers, 0)
            self._tracee.set_registers(registers)

    def _wish(self, registers: arch.Registers) -> float | None:
        """Return until when a call wants to sleep (time.monotonic()), None if it is no sleep."""
        number = int(registers.orig_rax)
        if number not in arch.SLEEPS:
            return None
        arguments = arch.arguments(registers)
        data = self._tracee.memory.read(arguments[arch.SLEEPS[number]], _TIMESPEC)
        seconds = int.from_bytes(data[:8], "little", signed=True)
        part = int.from_bytes(data[8:], "little", signed=True)
        if len(data) < _TIMESPEC or seconds < 0 or not 0 <= part < _NS:
            return None  # the kernel returns the error
        wanted = seconds + part / _NS
        if arch.SLEEPS[number]:
            clock, flags = arguments[:2]
            if clock not in _CLOCKS:
                return None
            if flags & _ABSOLUTE:
                wanted -= time.clock_gettime(clock)
        return time.monotonic() + wanted


# Let a borrowed thread call a function. Any thread may hold a lock that the function needs (the
# locks of malloc and of the loader), so the threads go on. The thread that makes the call must
# hold none of these locks itself: see above. It gets its own stack for the call, all its registers
# and errno are kept, and its signals are held back.

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
            tracee.settle(at - 64, 0)
            errno = self._errno(tracee, kept)
            ptrace.set_options(self.tid, _OPTIONS)
            vectors = arch.Vectors.of(self.tid)
            vectors.fresh().give(self.tid)
            try:
                end = time.monotonic() + self.limit + _LATER
                sleeper = Sleeper(tracee, end) if is_restarting else None
                given = at if self.value is None else self.value
                tracee.finishes_alone = tracee.comes_back_alone(trap)
                result = tracee.call(
                    function, given, at - 64 - 8, trap, limit=self.limit, on_syscall=sleeper
                )
                tracee.finishes_alone = False
                after = tracee.memory.read(at, len(argument))
                tracee.settle(0)
                tracee.syscall(arch.NR_MUNMAP, area, size)
            except Faulted:
                self.has_overwritten = arch.is_restarting(tracee.registers())
                self._let_go_of_loader(tracee, at - 64 - 8, trap)
                # Its memory stays mapped, because the function may have stored addresses of it
                # anywhere.
                vectors.give(self.tid)
                ptrace.set_options(self.tid, ptrace.O_TRACESYSGOOD)
                self._put_errno(tracee, kept, errno)
                raise
            vectors.give(self.tid)
            ptrace.set_options(self.tid, ptrace.O_TRACESYSGOOD)
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
        debug = loader.read_debug(visit.memory, visit.facts.r_debug)
        for entry in loader.walk(visit.memory, debug.first if debug else 0):
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
