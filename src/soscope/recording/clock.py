# SPDX-License-Identifier: Apache-2.0
"""Times: the processor's time stamp counter to CLOCK_REALTIME, and reading it from Python.

The agent stamps records with the counter alone. soscope reads the counter together with the
system's clocks now and then; between two such pairs the realtime clock is taken as even.
Durations use the rate over the whole run, measured by CLOCK_MONOTONIC_RAW, so that a step of
the realtime clock does not bend them.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right

_SPACING = 50_000_000  # ns between kept pairs: the error of one reading spreads over this

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")


class Clock:
    """Converts counter values to nanoseconds, from pairs that were read together."""

    __slots__ = ("_monotonic", "_piece", "_rate", "_realtime", "_tsc")

    def __init__(self) -> None:
        self._tsc: list[int] = []
        self._realtime: list[int] = []
        self._monotonic: list[int] = []
        self._rate = 1.0
        self._piece = (1, 0, 0, 0.0)  # from and to (tsc), realtime there, ns per tick: used last

    def add(self, tsc: int, realtime: int, monotonic: int) -> None:
        """Take a pair (tsc, realtime ns, monotonic raw ns). An older one is ignored."""
        if not tsc or (self._tsc and tsc <= self._tsc[-1]):
            return
        if len(self._tsc) > 1 and monotonic - self._monotonic[-2] < _SPACING:
            del self._tsc[-1], self._realtime[-1], self._monotonic[-1]
        self._piece = (1, 0, 0, 0.0)
        self._tsc.append(tsc)
        self._realtime.append(realtime)
        self._monotonic.append(monotonic)
        if len(self._tsc) > 1:
            self._rate = (monotonic - self._monotonic[0]) / (tsc - self._tsc[0])

    @property
    def is_set(self) -> bool:
        """Say whether any pair is known."""
        return bool(self._tsc)

    @property
    def rate(self) -> float:
        """Nanoseconds per tick; 1 until two pairs are known."""
        return self._rate

    def segments(self) -> tuple[list[int], list[int], list[float]]:
        """Return (tsc, realtime, ns per tick) of the pieces, each up to the next one's tsc."""
        rates = [
            (realtime - before) / (tsc - start)
            for start, tsc, before, realtime in zip(
                self._tsc, self._tsc[1:], self._realtime, self._realtime[1:], strict=False
            )
        ]
        return self._tsc, self._realtime, [*rates, self._rate]

    def time_ns(self, tsc: int) -> int:
        """Return CLOCK_REALTIME ns; 0 for a tsc of 0 (no clock) or without any pair."""
        start, end, realtime, rate = self._piece
        if not start <= tsc < end:
            if not tsc or not self._tsc:
                return 0
            start, end, realtime, rate = self._piece = self._find(tsc)
        return realtime + int((tsc - start) * rate // 1)

    def _find(self, tsc: int) -> tuple[int, int, int, float]:
        """Return the piece that a time lies in."""
        known = self._tsc
        at = bisect_right(known, tsc) - 1
        if at < 0:  # not kept: its times lie outside
            return known[0], known[0], self._realtime[0], self._rate
        if at == len(known) - 1:
            return known[at], 1 << 64, self._realtime[at], self._rate
        rate = (self._realtime[at + 1] - self._realtime[at]) / (known[at + 1] - known[at])
        return known[at], known[at + 1], self._realtime[at], rate

    def duration_ns(self, ticks: int) -> int:
        """Return the nanoseconds that `ticks` took."""
        return int(ticks * self._rate // 1)

    def tsc(self, time_ns: int) -> int:
        """Return the counter's value at a realtime; 0 without any pair."""
        if not self._tsc:
            return 0
        at = max(bisect_right(self._realtime, time_ns) - 1, 0)
        rate = self._rate
        if at < len(self._tsc) - 1 and time_ns >= self._realtime[0]:
            rate = (self._realtime[at + 1] - self._realtime[at]) / (
                self._tsc[at + 1] - self._tsc[at]
            )
        return max(self._tsc[at] + int((time_ns - self._realtime[at]) / (rate or 1.0)), 1)


class Sampler:
    """Reads the counter and the clocks together.

    Where this processor's counter cannot be read from Python (another architecture, no
    executable memory), the newest time in the stream stands in for it: a pair is then late
    by the age of that record.
    """

    __slots__ = ("_code", "_read")

    def __init__(self) -> None:
        self._read = None
        if os.uname().machine != "x86_64":
            return
        import ctypes
        import mmap

        try:
            self._code = mmap.mmap(
                -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
            )
        except OSError:
            return
        self._code[: len(_RDTSC)] = _RDTSC
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        self._read = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)

    def sample(self, newest: int = 0) -> tuple[int, int, int]:
        """Return (tsc, realtime ns, monotonic raw ns); `newest` is the latest tsc seen."""
        read = self._read
        if read is None:
            return newest, time.time_ns(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        best = (0, 0, 0)
        width = 1 << 64
        for _ in range(3):  # the first reading meets cold caches
            before = read()
            realtime = time.time_ns()
            monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            after = read()
            if after - before < width:
                width = after - before
                best = (before + width // 2, realtime, monotonic)
        return best
