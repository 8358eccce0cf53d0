# SPDX-License-Identifier: Apache-2.0
"""The times at the beginning of lines."""

from __future__ import annotations

from time import localtime, strftime

from soscope.report.trace.display import TIME_EPOCH, TIME_MICROSECONDS, TIME_NONE


class LineClock:
    """Formats the times of lines. The text of a second is made once.

    `mode` is one of the TIME_ constants of `display`. With `relative`, the time since the line
    before comes first.
    """

    __slots__ = ("_before", "_mode", "_relative", "_second", "_text")

    def __init__(self, mode: int, *, relative: bool = False) -> None:
        self._mode = mode
        self._relative = relative
        self._before = -1  # ns of the line before
        self._second = -1
        self._text = ""

    def text(self, time_ns: int) -> str:
        """Return the time of a line, followed by a blank."""
        if not self._relative:
            return self._time(time_ns)
        # A filter may show a call after calls inside of it, whose times are later.
        spent = max(time_ns - self._before, 0) if self._before >= 0 else 0
        self._before = time_ns
        seconds, ns = divmod(spent, 1_000_000_000)
        rest = "" if self._mode == TIME_NONE else self._time(time_ns)
        return f"{seconds:3}.{ns // 1000:06} {rest}"

    def _time(self, time_ns: int) -> str:
        second, ns = divmod(time_ns, 1_000_000_000)
        if self._mode == TIME_EPOCH:
            return f"{second}.{ns // 1000:06} "
        if second != self._second:
            self._second = second
            self._text = strftime("%H:%M:%S", localtime(second))
        if self._mode == TIME_MICROSECONDS:
            return f"{self._text}.{ns // 1000:06} "
        return f"{self._text} "
