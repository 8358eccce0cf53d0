# SPDX-License-Identifier: Apache-2.0
"""Convert the time stamp counter to CLOCK_REALTIME, and read the counter in Python.

The agent stamps records with the counter only. soscope reads the counter together with the
system's clocks now and then. Between two such pairs the realtime clock is assumed to run evenly.
Durations use the rate from the first pair to the first one after the end of the call, measured by
CLOCK_MONOTONIC_RAW, so that a step of the realtime clock does not change them.

A time has the same value live and in a report. Pairs replace one another while they are less than
`SPACING` apart, so nothing changes before a time that is `SPACING` older than the newest pair.
The stream asks for no later time before it has all pairs.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SPACING = 50_000_000  # ns between kept pairs: the error of one reading spreads over this
# Begin and end (tsc), realtime at the begin, realtime ns per tick, ns per tick for durations.
Piece = tuple[int, int, int, float, float]
_NO_PIECE: Piece = (1, 0, 0, 0.0, 1.0)

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")

_AGENTS = "x86_64"  # the machine with agents that stamp records, by uname(2)


def _monotonic() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


class Clock:
    """Converts counter values to nanoseconds, from pairs that were read together."""

    __slots__ = ("_early", "_monotonic", "_piece", "_rate", "_realtime", "_tsc")

    def __init__(self) -> None:
        self._tsc: list[int] = []
        self._realtime: list[int] = []
        self._monotonic: list[int] = []
        self._rate = 1.0
        self._early = 0.0  # ns per tick over the first `SPACING`, 0 before its end
        self._piece = _NO_PIECE  # the last one used

    def add(self, tsc: int, realtime: int, monotonic: int) -> None:
        """Take a pair (tsc, realtime ns, monotonic raw ns). An older one is ignored."""
        if not tsc or (self._tsc and tsc <= self._tsc[-1]):
            return
        if len(self._tsc) > 1 and monotonic - self._monotonic[-2] < SPACING:
            del self._tsc[-1], self._realtime[-1], self._monotonic[-1]
        self._piece = _NO_PIECE
        self._tsc.append(tsc)
        self._realtime.append(realtime)
        self._monotonic.append(monotonic)
        if len(self._tsc) > 1:
            self._rate = (monotonic - self._monotonic[0]) / (tsc - self._tsc[0])
            if not self._early and monotonic - self._monotonic[0] >= SPACING:
                self._early = self._rate

    @property
    def is_set(self) -> bool:
        """Return whether any pair is known."""
        return bool(self._tsc)

    @property
    def newest(self) -> int:
        """Return the tsc of the newest pair, 0 if there is none."""
        return self._tsc[-1] if self._tsc else 0

    @property
    def rate(self) -> float:
        """Return nanoseconds per tick, 1 until two pairs are known."""
        return self._rate

    def segments(self) -> list[tuple[int, int, float, float]]:
        """Return the pieces, each up to the next one's tsc.

        (tsc, realtime, realtime ns per tick, ns per tick for durations that end in it)
        """
        pieces = map(self._at, range(len(self._tsc)))
        return [(start, realtime, rate, even) for start, _, realtime, rate, even in pieces]

    def time_ns(self, tsc: int) -> int:
        """Return CLOCK_REALTIME ns, or 0 for a tsc of 0 (no clock) or if there is no pair."""
        start, end, realtime, rate, _ = self._piece
        if not start <= tsc < end:
            if not tsc or not self._tsc:
                return 0
            start, end, realtime, rate, _ = self._piece = self._find(tsc)
        return realtime + int((tsc - start) * rate // 1)

    def piece(self, tsc: int) -> Piece | None:
        """Return the piece that contains a time, None if there is none or time goes back in it."""
        if not self._piece[0] <= tsc < self._piece[1]:
            if not self._tsc:
                return None
            self._piece = self._find(tsc)
        piece = self._piece
        return piece if piece[0] <= tsc < piece[1] and piece[3] >= 0 else None

    def _find(self, tsc: int) -> Piece:
        """Return the piece that contains a time."""
        at = bisect_right(self._tsc, tsc) - 1
        if at < 0:  # an invalid piece, which is not kept
            start, _, realtime, _, even = self._at(0)
            return start, start, realtime, self._rate, even
        return self._at(at)

    def _at(self, at: int) -> Piece:
        known = self._tsc
        if at == len(known) - 1:
            return known[at], 1 << 64, self._realtime[at], self._rate, self._rate
        rate = (self._realtime[at + 1] - self._realtime[at]) / (known[at + 1] - known[at])
        since = self._monotonic[at + 1] - self._monotonic[0]
        even = self._early or self._rate
        if since >= SPACING:
            even = since / (known[at + 1] - known[0])
        return known[at], known[at + 1], self._realtime[at], rate, even

    def duration_ns(self, ticks: int, until: int) -> int:
        """Return the nanoseconds that `ticks` took, which ended at `until` (tsc)."""
        piece = self._piece
        if not piece[0] <= until < piece[1] and self._tsc:
            piece = self._piece = self._find(until)
        return int(ticks * piece[4] // 1)

    def tsc(self, time_ns: int) -> int:
        """Return the counter's value at a realtime, 0 if there is no pair."""
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

    If this processor's counter cannot be read in Python (no executable memory), the newest time
    in the stream is used instead. Then a pair is late by the age of that record. On a machine
    without agents, soscope itself stamps records with the system's clock.
    """

    __slots__ = ("_code", "_read")

    def __init__(self) -> None:
        self._read: Callable[[], int] | None = None
        if os.uname().machine != _AGENTS:
            self._read = _monotonic  # soscope itself stamps the records, with this clock
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

    def ticks(self) -> int:
        """Return the counter's value, 0 if it cannot be read."""
        return 0 if self._read is None else int(self._read())

    def sample(self, newest: int = 0) -> tuple[int, int, int]:
        """Return (tsc, realtime ns, monotonic raw ns); `newest` is the latest tsc seen."""
        read = self._read
        if read is None:
            return newest, time.time_ns(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        best = (0, 0, 0)
        width = 1 << 64
        for _ in range(3):  # the first reading finds cold caches
            before = read()
            realtime = time.time_ns()
            monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            after = read()
            if after - before < width:
                width = after - before
                best = (before + width // 2, realtime, monotonic)
        return best
