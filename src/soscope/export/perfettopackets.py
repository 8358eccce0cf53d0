# SPDX-License-Identifier: Apache-2.0
"""TracePackets of Perfetto's format: tracks, and the events on them.

protos/perfetto/trace/trace.proto, trace_packet.proto, track_event/*.proto have the field numbers.
Names and categories are interned: the first packet that uses one defines its number.
"""

from __future__ import annotations

from soscope.export.protobuf import integer, message, string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BEGIN, END, INSTANT = 1, 2, 3  # TrackEvent.Type
_SEQUENCE = 1
_CLEARED, _NEEDS_STATE = 1, 2  # TracePacket.SequenceFlags
_REALTIME = 1  # BuiltinClock
_NAMES, _CATEGORIES, _ANNOTATIONS = 2, 1, 3  # fields of InternedData
_FLUSH_AT = 1 << 20


class PerfettoPackets:
    """Writes packets; times are nanoseconds of CLOCK_REALTIME."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._packets = bytearray()
        self._interned: dict[tuple[int, str], int] = {}
        self._counts = {_NAMES: 0, _CATEGORIES: 0, _ANNOTATIONS: 0}
        self._new = bytearray()  # InternedData of the next packet
        self._tracks = 0

    def begin(self, first_ns: int) -> None:
        """Write the clock of all times; this must be the first packet."""
        clock = message(1, integer(1, _REALTIME) + integer(2, first_ns))
        snapshot = message(6, clock + integer(2, _REALTIME))
        defaults = message(59, integer(58, _REALTIME))
        self._packets += message(1, snapshot + integer(10, _SEQUENCE))
        self._packets += message(1, defaults + integer(10, _SEQUENCE) + integer(13, _CLEARED))

    def process(self, pid: int, name: str) -> int:
        """Describe a process, and return its track."""
        return self._track(message(3, integer(1, pid) + string(6, name)))

    def thread(self, process: int, pid: int, tid: int, name: str = "") -> int:
        """Describe a thread, and return its track."""
        described = integer(1, pid) + integer(2, tid) + (string(5, name) if name else b"")
        return self._track(integer(5, process) + message(4, described))

    def named(self, parent: int, name: str) -> int:
        """Describe a track of a process that is not a thread, and return it."""
        return self._track(integer(5, parent) + string(2, name))

    def name(self, text: str) -> bytes:
        """Return the field for the name of an event."""
        return integer(10, self._number(_NAMES, text))

    def category(self, text: str) -> bytes:
        """Return the field for the category of an event."""
        return integer(3, self._number(_CATEGORIES, text))

    def annotation(self, name: str, value: str | int) -> bytes:
        """Return a debug annotation of an event."""
        shown = string(6, value) if isinstance(value, str) else integer(3, value)
        return message(4, integer(1, self._number(_ANNOTATIONS, name)) + shown)

    def texts(self, name: str, values: Iterable[str]) -> bytes:
        """Return a debug annotation that is an array of texts."""
        shown = [message(12, string(6, value)) for value in values]
        return message(4, integer(1, self._number(_ANNOTATIONS, name)) + b"".join(shown))

    def event(self, kind: int, track: int, time_ns: int, said: bytes) -> None:
        """Write a TrackEvent; `said` are the fields of its name, category and annotations."""
        event = integer(9, kind) + integer(11, track) + said
        self._packet(integer(8, time_ns) + message(11, event))

    def flush(self) -> None:
        """Write the rest of the packets."""
        self._write(bytes(self._packets))
        self._packets.clear()

    def _track(self, described: bytes) -> int:
        self._tracks += 1
        self._packet(message(60, integer(1, self._tracks) + described))
        return self._tracks

    def _number(self, field: int, text: str) -> int:
        key = field, text
        number = self._interned.get(key)
        if number is None:
            number = self._interned[key] = self._counts[field] = self._counts[field] + 1
            self._new += message(field, integer(1, number) + string(2, text))
        return number

    def _packet(self, content: bytes) -> None:
        packet = content + integer(10, _SEQUENCE) + integer(13, _NEEDS_STATE)
        if self._new:
            packet += message(12, bytes(self._new))
            self._new.clear()
        self._packets += message(1, packet)
        if len(self._packets) > _FLUSH_AT:
            self.flush()
