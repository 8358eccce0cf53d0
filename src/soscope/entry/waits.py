# SPDX-License-Identifier: Apache-2.0
"""Find out for what and since when a thread waits in the kernel.

This is needed only for calls that a stop ends with EINTR. The kernel does not report since when a
thread waits. But that is the time at which it last ran, which is in the scheduler's data
(/proc/PID/task/TID/sched). If that is missing, the time-out starts again.
"""

from __future__ import annotations

import os
import time

from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory
from soscope.model.record import Record

RUNS = 2  # rank of a thread that is in no system call
_NS = 1_000_000_000
_MS = 1_000_000  # nanoseconds
_SAMPLES = 3

# A time-out in milliseconds that a call was given, and the ns by which it is too long.
Owed = tuple[int, int]


class Wait(Record):
    """A system call that a thread is in.

    `number` is the call's number. `ran_at` is the time at which the thread last ran (ns of the
    scheduler's clock, 0 if it is not known), `switches` how often it had given up its processor
    by then, and `processor` the number of that processor.
    """

    number: int
    ran_at: int = 0
    switches: int = 0
    processor: int = 0


def look(tid: int, *, restarts: bool = False) -> Wait | None:
    """Return the system call that a running thread is in, None if it is in none.

    With `restarts`, the calls in `RESTARTED` will be repeated by soscope.
    """
    try:
        with open(f"/proc/{tid}/syscall", "rb", buffering=0) as file:
            first = file.read(256).split(b" ", 1)[0].strip()
        number = int(first)
    except (OSError, ValueError):
        return None
    if number < 0:
        return None
    if number in arch.TIMED or (restarts and number in arch.RESTARTED):
        return Wait(number, *_account(tid), _processor(tid))
    return Wait(number)


def rank(wait: Wait | None) -> int:
    """Return how much a thread is disturbed by calls in it. The least is 0."""
    if wait is None:
        return RUNS
    if wait.number == arch.VFORK:
        return 4
    return 1 if wait.number in arch.TIMED else 0


def _account(tid: int | str) -> tuple[int, int]:
    """Return (ns at which the thread last began to run, times it waited), zeros if not known."""
    ran_at = switches = 0
    try:
        with open(f"/proc/{tid}/sched", "rb", buffering=0) as file:
            for line in file.read(8192).splitlines():
                if line.startswith(b"se.exec_start"):
                    ran_at = int(float(line.rpartition(b":")[2]) * 1e6)
                elif line.startswith(b"nr_voluntary_switches"):
                    switches = int(line.rpartition(b":")[2])
    except (OSError, ValueError):
        return 0, 0
    return (ran_at, switches) if switches else (0, 0)


def _processor(tid: int) -> int:
    try:
        with open(f"/proc/{tid}/stat", "rb", buffering=0) as file:
            return int(file.read().rpartition(b")")[2].split()[36])
    except (OSError, IndexError, ValueError):
        return -1


class SchedulerClock:
    """Converts times of the scheduler's clock to times of time.monotonic_ns().

    Each processor may have its own clock. Learning one moves this thread to that processor for a
    moment, so it should be done while no thread waits.
    """

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        self._offsets: dict[int, int] = {}

    def learn(self, wait: Wait | None) -> None:
        """Learn the clock of the processor on which a thread ran before it began to wait."""
        if wait is None or not wait.ran_at or wait.processor < 0:
            return
        if wait.processor not in self._offsets:
            self._offsets[wait.processor] = _offset(wait.processor)

    def began(self, tid: int, wait: Wait | None) -> int:
        """Return since when a thread that was just stopped has been waiting, 0 if not known.

        More than one switch since it was looked at means that it has run in between.
        """
        if wait is None or not wait.ran_at or _account(tid)[1] != wait.switches + 1:
            return 0
        offset = self._offsets.get(wait.processor, 0)
        return wait.ran_at + offset if offset else 0


def _offset(processor: int) -> int:
    """Return the offset to be added to a processor's scheduler clock, 0 if it is not known.

    This thread's own scheduler data is new just after a sleep. If the thread is interrupted
    between reading the two clocks, another sample is better.
    """
    best, offset = _NS, 0
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {processor})
    except OSError:  # not allowed for this process
        return 0
    try:
        for _ in range(_SAMPLES):
            time.sleep(0.00002)
            before = time.monotonic_ns()
            ran_at = _account("thread-self")[0]
            took = time.monotonic_ns() - before
            if ran_at and took < best:
                best, offset = took, before - ran_at
    finally:
        try:
            os.sched_setaffinity(0, allowed)
        except OSError:
            pass  # the processors were taken away meanwhile
    return offset


def timespec(registers: arch.Registers) -> int:
    """Return the address of the `struct timespec` of a call's time-out, 0 if it has none."""
    number = int(registers.orig_rax)
    register, kind = arch.TIMED.get(number, ("", ""))
    return int(getattr(registers, register)) if kind == arch.TIMESPEC else 0


def shorten(
    registers: arch.Registers, began: int, tid: int, place: int, owed: Owed = (0, 0)
) -> Owed:
    """Subtract the elapsed time from the time-out of a call that will be repeated.

    The call began at `began` (time.monotonic_ns()). `place` is the address of 16 bytes in the
    process for a new `struct timespec`, 0 if there are none. Without them, a time-out in memory
    starts again. Returns the rest that could not be subtracted. It must be given as `owed` when
    the same call is stopped again, because otherwise many stops would add many parts of a
    millisecond.
    """
    number = int(registers.orig_rax)
    how = arch.TIMED.get(number) or arch.RESTARTED.get(number)
    if not began or how is None:
        return 0, 0
    gone = time.monotonic_ns() - began
    if gone <= 0:
        return 0, 0
    register, kind = how
    value = int(getattr(registers, register))
    if kind == arch.MILLISECONDS:
        timeout = value & 0xFFFF_FFFF
        if not timeout or timeout >= 1 << 31:
            return 0, 0
        if timeout == owed[0]:
            gone += owed[1]
        left = max(timeout - gone // _MS, 0)
        setattr(registers, register, left)
        return left, gone % _MS
    if not value or not place:
        return 0, 0
    memory = RemoteMemory(tid)
    try:
        data = memory.read(value, 16)
        if len(data) < 16:
            return 0, 0
        seconds = int.from_bytes(data[:8], "little", signed=True)
        left = seconds * _NS + int.from_bytes(data[8:], "little") - gone
        left = max(left, 0)
        memory.write(
            place, (left // _NS).to_bytes(8, "little") + (left % _NS).to_bytes(8, "little")
        )
        setattr(registers, register, place)
        return 0, 0
    finally:
        memory.close()
