# SPDX-License-Identifier: Apache-2.0
"""Sleep for a function called in a borrowed thread, to keep the thread's own restart data.

A thread that waits in poll, nanosleep or a futex with a time-out goes on with restart_syscall(2)
after a stop, and the kernel stores the data for that in the thread. nanosleep and clock_nanosleep
overwrite the data even if nothing interrupts them. So soscope skips these calls in the thread,
and sleeps itself instead.
"""

from __future__ import annotations

import time

from soscope.entry import ptrace
from soscope.entry.isa import arch
from soscope.entry.stop.tracee import Tracee

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
