# SPDX-License-Identifier: Apache-2.0
"""What a thread waits for in the kernel, and for how long it has: x86-64 system calls.

Only needed for calls that a stop ends with EINTR. The time since which a thread waits is not
told by the kernel; but it is the time at which it last ran, which the scheduler's account
(/proc/PID/task/TID/sched) has. Where that is missing the time-out starts again.
"""

from __future__ import annotations

import os
import time

from soscope.process import arch_x86_64 as arch
from soscope.process.memory import RemoteMemory

# A stop makes these return EINTR. number -> (register of the time-out, its kind)
MILLISECONDS, TIMESPEC = "ms", "timespec"
TIMED = {
    232: ("r10", MILLISECONDS),  # epoll_wait
    281: ("r10", MILLISECONDS),  # epoll_pwait
    441: ("r10", TIMESPEC),  # epoll_pwait2
    220: ("r10", TIMESPEC),  # semtimedop
    128: ("rdx", TIMESPEC),  # rt_sigtimedwait
    208: ("r8", TIMESPEC),  # io_getevents
    333: ("r8", TIMESPEC),  # io_pgetevents
}
_VFORK = 58
_NS = 1_000_000_000


class Wait:
    """A system call that a thread is in.

    `number` is the call's, `ran_at` when the thread last ran (ns of the scheduler's clock,
    0 = not known), `switches` how often it had then given up its processor.
    """

    __slots__ = ("number", "ran_at", "switches")

    def __init__(self, number: int, ran_at: int, switches: int) -> None:
        self.number = number
        self.ran_at = ran_at
        self.switches = switches


def look(tid: int) -> Wait | None:
    """Look at what a running thread does; None where it is in no system call."""
    try:
        with open(f"/proc/{tid}/syscall", "rb", buffering=0) as file:
            first = file.read(256).split(b" ", 1)[0].strip()
        number = int(first)
    except (OSError, ValueError):
        return None
    if number < 0:
        return None
    if number in TIMED:
        return Wait(number, *_account(tid))
    return Wait(number, 0, 0)


def rank(wait: Wait | None) -> int:
    """Say how little a thread is disturbed by calls in its place; 0 = least."""
    if wait is None:
        return 2
    if wait.number == _VFORK:
        return 4
    return 1 if wait.number in TIMED else 0


def _account(tid: int) -> tuple[int, int]:
    """Return (ns at which the thread last began to run, times it waited); zeros: not known."""
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


class Elapsed:
    """Tells for how long threads have been waiting."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset: int | None = None

    def of(self, tid: int, wait: Wait) -> int:
        """Return the ns since thread `tid` began to wait, at least 0; None is not known: 0.

        It is stopped now: more than one switch since it was looked at means that it has run
        in between, and then nothing is known.
        """
        if not wait.ran_at or _account(tid)[1] > wait.switches + 1:
            return 0
        return max(0, self._now() - wait.ran_at)

    def _now(self) -> int:
        """Return the time of the scheduler's clock: our own account has just been renewed."""
        if self._offset is None:
            time.sleep(0.00005)
            now = time.monotonic_ns()
            self._offset = _account(os.getpid())[0] - now
        return time.monotonic_ns() + self._offset


def shorten(
    registers: arch.Registers, wait: Wait | None, elapsed: Elapsed, tid: int, place: int
) -> None:
    """Take the time that has passed off the time-out of a call that will be made again.

    `place` is the address of 16 bytes in the process for a new `struct timespec`, 0: there
    is none, and a time-out in memory starts again.
    """
    number = int(registers.orig_rax)
    if wait is None or wait.number != number or number not in TIMED:
        return
    register, kind = TIMED[number]
    value = int(getattr(registers, register))
    if kind == MILLISECONDS:
        timeout = value & 0xFFFF_FFFF
        if timeout and timeout < 1 << 31:
            gone = elapsed.of(tid, wait) // 1_000_000
            setattr(registers, register, max(timeout - gone, 0))
        return
    if not value or not place:
        return
    with_memory = RemoteMemory(tid)
    try:
        data = with_memory.read(value, 16)
        if len(data) < 16:
            return
        seconds = int.from_bytes(data[:8], "little", signed=True)
        left = seconds * _NS + int.from_bytes(data[8:], "little") - elapsed.of(tid, wait)
        left = max(left, 0)
        with_memory.write(
            place, (left // _NS).to_bytes(8, "little") + (left % _NS).to_bytes(8, "little")
        )
        setattr(registers, register, place)
    finally:
        with_memory.close()
