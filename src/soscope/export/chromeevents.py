# SPDX-License-Identifier: Apache-2.0
"""Events of Chrome's Trace Event Format, the JSON Object Format: times are µs, as decimals."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FLUSH_AFTER = 4096


class ChromeEvents:
    """Writes events in the order in which they come; each is the members of a JSON object."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._lines: list[str] = []
        self._is_first = True

    def add(self, members: str) -> None:
        """Write an event."""
        self._lines.append(f"{{{members}}}")
        if len(self._lines) >= _FLUSH_AFTER:
            self._flush()

    def end(self, start_ns: int | None) -> None:
        """Write the rest; `start_ns` is the time since 1970 from which all times count."""
        if self._is_first and not self._lines:
            self._write(b'{"traceEvents":[')
        self._flush()
        other = "" if start_ns is None else f',"otherData":{{"start_time_ns":"{start_ns}"}}'
        self._write(f'],\n"displayTimeUnit":"ns"{other}}}\n'.encode())

    def _flush(self) -> None:
        if not self._lines:
            return
        start = '{"traceEvents":[\n' if self._is_first else ",\n"
        self._is_first = False
        self._write((start + ",\n".join(self._lines)).encode("utf-8", "surrogateescape"))
        self._lines.clear()


def micros(time_ns: int) -> str:
    """Return nanoseconds as µs.

    >>> from soscope.export.chromeevents import micros
    >>> micros(12_345)
    '12.345'
    """
    whole, rest = divmod(time_ns, 1000)
    return f"{whole}.{rest:03d}"
