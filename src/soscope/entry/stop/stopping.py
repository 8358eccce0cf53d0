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

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.stop import waits
from soscope.entry.stop.patience import LookingTime
from soscope.entry.stop.reaper import Reaper, bury, is_traced
from soscope.proc.status import Refused, has_ended, running_time, signal

_LIMIT = 1.0  # seconds in which all threads must have stopped
_LACKING = 5.0  # seconds more if other processes use the processors
_ENOUGH = 0.05  # seconds of processor time in which a thread stops
_SPIN = 200  # checks of a thread before sleeps, and before another request
_PAUSE = 0.0002
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
                ptrace.seize(tid, 0)
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
