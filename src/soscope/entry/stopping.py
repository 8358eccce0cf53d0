# SPDX-License-Identifier: Apache-2.0
"""Stop all threads of a running process, and resume them without visible effects.

A stop wakes a thread that waits in a system call. The kernel restarts most calls itself when the
thread goes on, because their result requests that. Some calls (epoll_wait, sigtimedwait,
semtimedop, …) return EINTR, which a program would see. Such a thread gets the result by which the
kernel restarts a call if no handler runs (-ERESTARTNOHAND), and the time that it has waited
already is subtracted from its time-out.
"""

from __future__ import annotations

import _thread
import errno
import os
import time

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.entry import loader, ptrace, waits
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory
from soscope.entry.tracee import LookingTime
from soscope.proc.status import Refused, has_ended, running_time, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


# Find out whether a process's loader is idle, by its locks, which are found by their form.
#
# glibc has them side by side in `_rtld_global`, an exported variable whose members are private and
# move between versions: `_dl_load_lock` (held during dlopen and dlclose, with the constructors),
# `_dl_load_write_lock` (while its list changes), and since 2.35 `_dl_load_tls_lock`. All are
# recursive mutexes of 40 bytes, and the number of namespaces is in front of the first.
# `r_debug.r_state` is not sufficient: before glibc 2.41 it is consistent in the middle of
# relocation.
#
# Values that are read from a running process may have changed already.

_MUTEX = 40
_RECURSIVE = 1  # PTHREAD_MUTEX_RECURSIVE_NP
_MOST_NAMESPACES = 16
_MOST_COUNT, _MOST_USERS = 1000, 100_000
_GLOBAL_SIZE = 1 << 14  # more than `_rtld_global` ever was
_OWNER = 8


class LoaderLock:
    """The words that tell whether the loader of a process is at work."""

    __slots__ = ("_memory", "_mutexes", "_r_debug", "_rwlock")

    def __init__(
        self, memory: RemoteMemory, r_debug: int, mutexes: tuple[int, ...], rwlock: int
    ) -> None:
        self._memory = memory
        self._r_debug = r_debug
        self._mutexes = mutexes
        self._rwlock = rwlock

    @classmethod
    def find(cls, memory: RemoteMemory, loader: ElfImage, r_debug: int) -> LoaderLock | None:
        """Find the locks of `loader`. Return None if it is of an unknown kind."""
        symbol = loader.symbol("_rtld_global")
        if symbol is not None:
            start = loader.locate(symbol.value)
            at = _first_mutex(memory.read(start, min(symbol.size, _GLOBAL_SIZE)))
            if at is None:
                return None
            return cls(memory, r_debug, (start + at, start + at + _MUTEX), 0)
        rwlock = _musl_lock(memory, loader)
        return cls(memory, r_debug, (), rwlock) if rwlock else None

    @property
    def is_ready(self) -> bool:
        """Return whether the program's initial images have all been loaded."""
        debug = loader.read_debug(self._memory, self._r_debug)
        return bool(debug and debug.first and debug.brk) and (
            debug is not None and debug.state == loader.RT_CONSISTENT
        )

    @property
    def is_held(self) -> bool:
        """Return whether a thread loads or unloads. It is exact while all threads are stopped."""
        if self._rwlock:
            return self._memory.read(self._rwlock, 4) != bytes(4)
        # Without libpthread, glibc 2.31 only counts and does not lock.
        return any(self._memory.read(at, 8) != bytes(8) for at in self._mutexes)

    @property
    def activity(self) -> tuple[object, ...]:
        """A value that changes from time to time while the loader is at work."""
        debug = loader.read_debug(self._memory, self._r_debug)
        return (debug.state if debug else 0, *self.owners)

    @property
    def owner(self) -> int:
        """The thread that holds a lock, by its id in its own pid namespace, 0 if none is known."""
        return next(iter(self.owners), 0)

    @property
    def owners(self) -> list[int]:
        """All threads that hold a lock, by ids in their own pid namespace, 0 if unknown."""
        if self._rwlock:
            return [0] if self.is_held else []
        words = (self._memory.read(at, 12) for at in self._mutexes)
        return [int.from_bytes(data[_OWNER:], "little") for data in words if data[:8] != bytes(8)]

    def held_by(self, tid: int) -> list[tuple[int, int]]:
        """Return the mutexes that a thread (id in its own namespace) holds: (address, count)."""
        held = []
        for at in self._mutexes:
            data = self._memory.read(at, 12)
            if data[:4] != bytes(4) and int.from_bytes(data[_OWNER:], "little") == tid:
                held.append((at, int.from_bytes(data[4:8], "little")))
        return held


def _is_mutex(data: bytes, at: int) -> bool:
    if at < 0 or at + _MUTEX > len(data):
        return False
    words = [int.from_bytes(data[at + 4 * word : at + 4 * word + 4], "little") for word in range(5)]
    return (
        words[4] == _RECURSIVE
        and words[0] <= 2
        and words[1] < _MOST_COUNT
        and words[3] < _MOST_USERS
        and data[at + 20 : at + _MUTEX] == bytes(_MUTEX - 20)
    )


def _first_mutex(data: bytes) -> int | None:
    """Return the offset of `_dl_load_lock` in `_rtld_global`, None if it is not found."""
    for at in range(8, len(data) - 2 * _MUTEX + 1, 8):
        if data[at + 16] != _RECURSIVE or not _is_mutex(data, at):
            continue
        spaces = int.from_bytes(data[at - 8 : at], "little")
        if 1 <= spaces <= _MOST_NAMESPACES and _is_mutex(data, at + _MUTEX):
            return at
    return None


def _musl_lock(memory: RemoteMemory, loader: ElfImage) -> int:
    """Return the address of musl's lock, which dl_iterate_phdr's code loads, 0 if not found."""
    function = loader.symbol("dl_iterate_phdr")
    if function is None or loader.symbol("__libc_start_main") is None:
        return 0
    at = loader.locate(function.value)
    code = memory.read(at, 256)
    for place in range(len(code) - 7):
        if code[place : place + 3] in (b"\x48\x8d\x3d", b"\x48\x8d\x2d"):  # lea X(%rip),%rdi|%rbp
            distance = int.from_bytes(code[place + 3 : place + 7], "little", signed=True)
            return at + place + 7 + distance
    return 0


def executable_ranges(loader: ElfImage) -> list[tuple[int, int]]:
    """Return the address ranges of an image's code."""
    return [
        (loader.locate(segment.vaddr), loader.locate(segment.vaddr) + segment.memsz)
        for segment in loader.segments
        if segment.type == elf.PT_LOAD and segment.flags & elf.PF_X
    ]


# Reap traced threads as they end, while their tracer is blocked.
#
# A thread that calls execve waits until the process's other threads have ended, and until their
# tracer has reaped them. But if that tracer seizes one more thread, ptrace(2) makes it wait for the
# new program, and no signal wakes it. Both would wait for ever. Moreover, the end of a process's
# first thread is not reported before all others have been reaped. A tracer that only waits for the
# first thread, because it has borrowed that one, would also wait for ever.
#
# The same holds for threads that are killed while they are being detached, because a thread that
# was detached before them may have called execve already.

_PATIENCE = 0.02  # seconds after which a tracer is regarded as blocked
_SOON = 0.005  # seconds to wait for the end of a killed thread
_LATE = 60.0  # seconds after which no thread calls execve any more
_PAUSE = 0.0002
_ENDED = os.WEXITED | os.WNOHANG | ptrace.WALL

_ENDS = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


class Reaper:
    """Waits in its own thread for threads of `tids` that end, until `end` is called.

    It looks periodically, and takes only their ends. `tids` may change. The thread that makes a
    reaper is their tracer.
    """

    __slots__ = ("_done", "_tids", "_tracer")

    def __init__(self, tids: Collection[int]) -> None:
        self._tids = tids
        self._tracer = _thread.get_native_id()
        self._done = _thread.allocate_lock()
        self._done.acquire()
        try:
            _thread.start_new_thread(self._work, ())
        except RuntimeError:
            pass  # no thread available, and it is hardly ever needed

    def end(self) -> None:
        """Stop waiting for threads. Call this once."""
        self._done.release()

    def _work(self) -> None:
        while not self._done.acquire(timeout=_PATIENCE):
            if _has_any_ended():  # asking each of thousands takes long
                for tid in list(self._tids):
                    _take_end(tid, self._tracer)


def bury(tids: list[int]) -> None:
    """Reap traced threads that were killed, even if their end is yet to come.

    A process that has called execve may have the number of one of them. Its end must be left to
    its parent, which may be soscope, or the caller of soscope.
    """
    tracer = _thread.get_native_id()
    end = time.monotonic() + _SOON
    left = tids
    while left := [tid for tid in left if is_traced(tid, tracer) and not _take_end(tid, tracer)]:
        if time.monotonic() > end:
            try:
                _thread.start_new_thread(_bury_later, (left, tracer))
            except RuntimeError:
                _bury_later(left, tracer)
            return
        time.sleep(_PAUSE)


def _bury_later(tids: list[int], tracer: int) -> None:
    end = time.monotonic() + _LATE
    while tids and time.monotonic() < end:
        time.sleep(_PATIENCE)
        tids = [tid for tid in tids if is_traced(tid, tracer) and not _take_end(tid, tracer)]


def _has_any_ended() -> bool:
    try:
        return os.waitid(os.P_ALL, 0, _ENDED | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def is_traced(tid: int, tracer: int) -> bool:
    """Return whether a thread is traced by the thread `tracer`."""
    try:
        with open(f"/proc/{tid}/status", "rb", buffering=0) as file:
            return b"\nTracerPid:\t%d\n" % tracer in file.read(4096)
    except OSError:
        return False


def _take_end(tid: int, tracer: int) -> bool:
    """Reap a thread that `tracer` traces, if it has ended. Return False if it has not ended.

    A stop of the thread is not taken. A process that has called execve may have the number of a
    killed thread, and another part of soscope may wait for its stop. wait(2) reports the stops of
    a traced thread even if they are not asked for.
    """
    try:
        end = os.waitid(os.P_PID, tid, _ENDED | os.WNOWAIT)
        if end is None:
            return False
        if end.si_code in _ENDS and is_traced(tid, tracer):
            os.waitid(os.P_PID, tid, _ENDED)
    except OSError:
        pass  # the thread was reaped elsewhere, so it is gone
    return True


_LIMIT = 1.0  # seconds in which all threads must have stopped
_LACKING = 5.0  # seconds more if other processes use the processors
_ENOUGH = 0.05  # seconds of processor time in which a thread stops
_SPIN = 200  # checks of a thread before sleeps, and before another request
_LETTING_GO = 0.2  # seconds that an old tracer may take to detach
_REFUSALS = 10  # refusals from a thread of another tracer, at least
_WAIT = ptrace.WALL | os.WNOHANG
_GONE = "ZXx"
_TIMESPEC = 16  # bytes


class SeizedThread:
    """A seized thread. `asked` and `let_go` are time.monotonic_ns() before and after its stop.

    `was_stopped` is set if its process had been stopped (SIGSTOP, Ctrl-Z) before. `wait` is what
    it waited for before the stop, None if it was running. `began` is the time at which that wait
    began (time.monotonic_ns()), 0 if it is not known.
    """

    __slots__ = ("asked", "began", "is_stopped", "let_go", "rank", "tid", "wait", "was_stopped")

    def __init__(self, tid: int, *, restarts: bool = False) -> None:
        self.tid = tid
        self.wait = waits.look(tid, restarts=restarts)
        self.rank = waits.rank(self.wait)
        self.began = 0
        self.asked = 0
        self.let_go = 0
        self.is_stopped = False
        self.was_stopped = False

    def note_stop(self, status: int) -> None:
        """Note the requested stop, by its wait status."""
        self.is_stopped = True
        self.was_stopped = os.WSTOPSIG(status) != signal.SIGTRAP


class Threads:
    """The threads of process `pid`. `longest` is the longest stop so far, in ns.

    `scratch` is the address of `scratch_count` times 16 bytes of the process, for time-outs. With
    `makes_again`, calls that the kernel would continue by restart_syscall(2) are repeated
    instead, because it is not known whether a seccomp filter allows restart_syscall. All methods
    must be called from one thread of soscope, because ptrace(2) accepts requests only from the
    tracing thread.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.longest = 0
        self.stopped: dict[int, SeizedThread] = {}
        self.scratch = 0
        self.scratch_count = 0
        self.makes_again = False
        self._owed: dict[int, waits.Owed] = {}
        # Addresses of time-outs of the threads that were resumed before the one that was kept.
        self._handed: set[int] | None = None
        self._clock = waits.SchedulerClock()
        self._reaper: Reaper | None = None
        self._looking = LookingTime()
        self._end = self._longest_end = 0.0  # end of a stop, in that time

    def lend(self, addr: int, size: int) -> None:
        """Use memory of the process for the time-outs of calls that go on."""
        self.scratch = addr
        self.scratch_count = size // _TIMESPEC

    # ---- stopping ----

    def stop(self, limit: float = _LIMIT) -> None:
        """Stop every thread, including new ones, until no thread is running.

        Raises Refused, with every thread running again, if a thread has had a processor and does
        not stop within `limit` seconds. Raises PermissionError if a thread may not be traced, and
        ProcessLookupError if the process is gone.
        """
        self._clock = waits.SchedulerClock()
        for tid in self._new():
            self._clock.learn(waits.look(tid, restarts=self.makes_again))
        self._limit_to(limit)
        self._reaper = Reaper(self.stopped)
        try:
            self._stop_all()
            if not self.stopped:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            self._find_began()
        except BaseException:
            self.resume()
            raise

    def _limit_to(self, seconds: float) -> None:
        """Begin a stop that may last `seconds`, and longer if processors are scarce."""
        self._end = self._looking.now() + seconds
        self._longest_end = self._end + _LACKING

    def _stop_all(self) -> None:
        while (new := self._new()) or self._run_still() or self._is_alone():
            if self._looking.now() > self._end + _LETTING_GO:
                raise Refused("its threads come and go faster than they can be stopped")
            for tid in new:
                self._seize(tid)
            for thread in [seized for seized in self.stopped.values() if not seized.is_stopped]:
                self._wait(thread)

    def _is_alone(self) -> bool:
        """Return whether no thread was found although the process is still there."""
        return not self.stopped and not has_ended(self.pid) and self._looking.now() < self._end

    def _run_still(self) -> bool:
        """Return whether threads are still running that were regarded as stopped.

        They were killed, or another thread has called execve and so has taken the number of the
        first thread, by which it must be asked to stop.
        """
        are_running = False
        for thread in self.stopped.values():
            try:
                ptrace.signal_mask(thread.tid)
            except OSError:
                thread.is_stopped, are_running = False, True
                self._interrupt(thread.tid)
        return are_running

    def _find_began(self) -> None:
        """Find the times since which the stopped threads have been waiting."""
        for thread in self.stopped.values():
            if thread.began or not thread.is_stopped:
                continue
            if thread.wait is None or not thread.wait.ran_at:
                continue
            try:
                # A tracer learns of the stop before the thread has given up its processor, and
                # only then its scheduler data includes the stop. A ptrace request waits for that.
                ptrace.signal_mask(thread.tid)
            except OSError:
                continue  # the process was killed
            thread.began = self._clock.began(thread.tid, thread.wait)

    def _new(self) -> list[int]:
        try:
            names = os.listdir(f"/proc/{self.pid}/task")
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise  # an error of soscope, not of the process
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from error
        return [
            tid
            for tid in map(int, names)
            if tid not in self.stopped and _state(self.pid, tid) not in _GONE
        ]

    def _seize(self, tid: int) -> None:
        thread = SeizedThread(tid, restarts=self.makes_again)
        refusals, end = 0, time.monotonic() + _LETTING_GO
        while True:
            try:
                ptrace.seize(tid, ptrace.O_TRACESYSGOOD)
                break
            except ProcessLookupError:
                return
            except PermissionError:
                if _state(self.pid, tid) in _GONE:
                    return
                if is_traced(tid, _thread.get_native_id()):
                    break  # a traced thread called execve and took this number
                # A killed tracer detaches from its threads one after the other. The time alone is
                # no criterion, because the request itself waits as long as a thread is in execve.
                refusals += 1
                if refusals > _REFUSALS and time.monotonic() > end:
                    raise
                time.sleep(_PAUSE)
        self.stopped[tid] = thread
        thread.asked = time.monotonic_ns()
        self._interrupt(tid)

    @staticmethod
    def _interrupt(tid: int) -> bool:
        """Ask a thread to stop. Return whether soscope traces it."""
        try:
            ptrace.interrupt(tid)
        except ProcessLookupError:
            return False  # if it has ended, the next wait reports that
        return True

    def _wait(self, thread: SeizedThread) -> None:
        """Wait until a thread is in the requested stop, or has ended."""
        looks = 0
        had = None
        while True:
            try:
                tid, status = os.waitpid(thread.tid, _WAIT)
            except ChildProcessError:
                del self.stopped[thread.tid]
                return
            if not tid:
                looks += 1
                if looks > _SPIN:
                    had = running_time(thread.tid) if had is None else had
                    if self._looking.now() > self._end and not self._is_starved(thread.tid, had):
                        raise Refused(_why_not_stopped(self.pid, thread.tid))
                    # Another thread, which soscope does not trace, may have taken its number.
                    if not looks % _SPIN and not self._interrupt(thread.tid):
                        del self.stopped[thread.tid]
                        return
                    time.sleep(_PAUSE)
                continue
            if not os.WIFSTOPPED(status):
                del self.stopped[thread.tid]
                return
            if status >> 16 == ptrace.EVENT_STOP:
                thread.note_stop(status)
                return
            # A signal was under way: it is delivered, and the stop comes after it.
            number = 0 if status >> 16 else os.WSTOPSIG(status)
            try:
                ptrace.resume(thread.tid, number)
            except ProcessLookupError:
                pass  # killed; the next wait reports its end

    def _is_starved(self, tid: int, had: float | None) -> bool:
        """Return whether a thread gets too little processor time to stop, and so needs longer.

        `had` is its processor time when it did not stop at once.
        """
        now, has = self._looking.now(), running_time(tid)
        if now > self._longest_end or had is None or has is None or has - had > _ENOUGH:
            return False
        self._end = now + _LETTING_GO
        return _state(self.pid, tid) in "Rt"  # the thread may have stopped just now

    # ---- resuming ----

    def resume(self, *, but: int = 0) -> None:
        """Resume and detach all threads, except `but`, which stays stopped and in `stopped`.

        If `but` is given, another call later releases that thread.
        """
        running = [seized for seized in self.stopped.values() if not seized.is_stopped]
        killed = [seized.tid for seized in running if not self._catch(seized)]  # perhaps killed
        if running:
            self._find_began()
        threads = [
            seized for seized in self.stopped.values() if seized.is_stopped and seized.tid != but
        ]
        is_kept = self._handed is not None  # others have run meanwhile
        # Calls that a SIGSTOP has interrupted must not be restarted.
        self._mend([seized for seized in threads if not seized.was_stopped], but)
        for thread in threads:
            try:
                ptrace.detach(thread.tid)
            except ProcessLookupError:
                killed.append(thread.tid)
            thread.let_go = time.monotonic_ns()
            if not is_kept:
                self.longest = max(self.longest, thread.let_go - thread.asked)
        for tid in [tid for tid in self.stopped if tid != but]:
            del self.stopped[tid]
        if not self.stopped:
            self._handed = None
            if self._reaper is not None:
                self._reaper.end()
                self._reaper = None
        bury(killed)

    def _catch(self, thread: SeizedThread) -> bool:
        """Catch a thread that has not stopped yet, to detach from it. It may never stop.

        Returns whether it is in the requested stop.
        """
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            try:
                tid, status = os.waitpid(thread.tid, _WAIT)
            except ChildProcessError:
                return False
            if tid and not os.WIFSTOPPED(status):
                return False
            if tid and status >> 16 == ptrace.EVENT_STOP:
                thread.note_stop(status)
                return True
            if tid:
                try:
                    ptrace.detach(thread.tid, 0 if status >> 16 else os.WSTOPSIG(status))
                except ProcessLookupError:
                    pass  # the process was killed
                return False
            time.sleep(_PAUSE)
        return False  # the kernel detaches when this process ends

    def _mend(self, threads: list[SeizedThread], but: int) -> None:
        """Restart the calls that the stop has ended with EINTR, but `but` only later."""
        by_tid = self.registers()
        # A time-out may already be in the lent memory since an earlier stop, even for a thread
        # that has not repeated its call yet.
        used = {waits.timespec(registers) for registers in by_tid.values()}
        calls = [
            (seized, by_tid[seized.tid])
            for seized in threads
            if seized.tid in by_tid and arch.is_interrupted(by_tid[seized.tid])
        ]
        owed = self._owed
        if self._handed is not None:  # the others have not changed since
            self._owed = {tid: left for tid, left in owed.items() if tid not in self.stopped}
            used |= self._handed
        else:
            self._owed = {but: owed[but]} if but in owed else {}
        lent = range(self.scratch, self.scratch + _TIMESPEC * self.scratch_count, _TIMESPEC)
        free = (place for place in lent if place not in used)
        handed = self._handed = set()
        for thread in threads if self.makes_again else ():
            if thread.tid in by_tid and arch.is_restarting(by_tid[thread.tid]):
                before = owed.get(thread.tid, (0, 0))
                self._owed[thread.tid] = _make_again(thread, by_tid[thread.tid], before)
        for thread, registers in calls:
            place = waits.timespec(registers)
            if place and place not in lent:
                place = next(free, 0)
            try:
                self._owed[thread.tid] = waits.shorten(
                    registers, thread.began, thread.tid, place, owed.get(thread.tid, (0, 0))
                )
                arch.restart(registers)
                arch.set_registers(thread.tid, registers)
                handed.add(waits.timespec(registers))
            except OSError:
                pass  # killed: its wait does not matter any more

    # ---- reading ----

    def registers(self) -> dict[int, arch.Registers]:
        """Return the registers of all stopped threads, by tid, without killed ones."""
        by_tid = {}
        for tid in self.stopped:
            try:
                by_tid[tid] = arch.get_registers(tid)
            except OSError:
                continue  # the process was killed
        return by_tid

    def worker(self) -> int:
        """Return the thread best suited to make system calls: one that is waiting itself.

        Such a thread is in no critical section of its own (rseq(2)), and the kernel restarts its
        call. It is chosen by its registers, because before the stop it may have been doing
        something else.
        """
        by_tid = self.registers()
        waiting = {tid for tid, registers in by_tid.items() if arch.waits(registers)}

        def rank(thread: SeizedThread) -> int:
            return thread.rank if thread.tid in waiting else max(thread.rank, waits.RUNS)

        return min(self.stopped.values(), key=rank).tid


def _make_again(thread: SeizedThread, registers: arch.Registers, owed: waits.Owed) -> waits.Owed:
    """Let a thread repeat its own call instead of restart_syscall(2) (see `waits.shorten`)."""
    left = (0, 0)
    try:
        # below its stack, as the kernel reads it before the thread runs any own code
        place = arch.scratch(registers, _TIMESPEC)
        left = waits.shorten(registers, thread.began, thread.tid, place, owed)
    except OSError:
        pass  # no room, so its time-out begins again
    arch.restart(registers)
    try:
        arch.set_registers(thread.tid, registers)
    except OSError:
        pass  # the process was killed
    return left


def _state(pid: int, tid: int) -> str:
    try:
        with open(f"/proc/{pid}/task/{tid}/stat", "rb", buffering=0) as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return "X"


def _why_not_stopped(pid: int, tid: int) -> str:
    state = _state(pid, tid)
    if state == "D":
        return f"thread {tid} cannot be stopped: it waits in the kernel (state D), as in vfork"
    return f"thread {tid} does not stop (state {state})"
