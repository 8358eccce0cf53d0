# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own format: a protobuf message Trace of TracePackets with track events.

protos/perfetto/trace/trace.proto, trace_packet.proto, track_event/*.proto have the field
numbers. A track for each thread; names and categories are interned, arguments and results are
debug annotations of the slice's end.
"""

from __future__ import annotations

from _collections_abc import Callable

from soscope.export.settings import ExportSettings
from soscope.export.stacks import ExportStacks, stacks_of
from soscope.export.timeline import Thread, Timeline, names, texts
from soscope.frames.ofcalls import frame_text, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry, Exit, ProcessStart

VIEWER = "open it in https://ui.perfetto.dev, or query it with trace_processor"

_SEQUENCE = 1
_CLEARED, _NEEDS_STATE = 1, 2  # TracePacket.SequenceFlags
_BEGIN, _END, _INSTANT = 1, 2, 3  # TrackEvent.Type
_REALTIME = 1  # BuiltinClock


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls; return notes."""
    listener = _Perfetto(write, settings.string_limit, stacks_of(replay))
    replay.run(listener)
    return listener.notes()


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode("utf-8", "replace"))


class _Perfetto(Timeline):
    def __init__(
        self, write: Callable[[bytes], object], limit: int, stacks: ExportStacks | None
    ) -> None:
        super().__init__()
        self._stacks = stacks
        self._write = write
        self._limit = limit
        self._packets = bytearray()
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}
        self._annotations: dict[str, int] = {}
        self._new = bytearray()  # InternedData of the next packet
        self._tracks: dict[Thread, int] = {}
        self._processes: dict[int, int] = {}
        self._programs: dict[int, str] = {}
        self._is_first = True

    def started(self, event: ProcessStart) -> None:
        self._programs[event.pid] = event.program.rpartition("/")[2]

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        arguments, _, _ = texts(self.prototypes, entry, None, self._limit)
        said = self._annotation("args", arguments) + self._stack(entry)
        self._begin(thread, entry, time_ns, _INSTANT, said)

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        self._begin(thread, entry, time_ns, _BEGIN, b"")

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        arguments, result, errno = texts(self.prototypes, entry, leave, self._limit)
        said = [
            self._annotation("args", arguments),
            self._annotation("caller", names(entry)[0]),
            self._annotation("ended", "" if leave is None else leave.ended),
        ]
        if result:
            said.append(self._annotation("result", result))
        if errno:
            said.append(self._annotation("errno", errno))
        if leave is not None and leave.duration_ns is not None:
            said.append(self._annotation("duration_ns", leave.duration_ns))
        said.append(self._stack(entry))
        event = _number(9, _END) + _number(11, self._track(thread)) + b"".join(said)
        self._packet(_number(8, time_ns) + _bytes(11, event))

    def finished(self) -> None:
        self._flush()

    def _begin(self, thread: Thread, entry: Entry, time_ns: int, kind: int, more: bytes) -> None:
        track = self._track(thread)
        name = self._interned(self._names, entry.slot.symbol, 2)
        category = self._interned(self._categories, names(entry)[1] or "?", 1)
        event = (
            _number(9, kind) + _number(11, track) + _number(10, name) + _number(3, category) + more
        )
        self._packet(_number(8, time_ns) + _bytes(11, event))

    def _interned(self, known: dict[str, int], text: str, field: int) -> int:
        number = known.get(text)
        if number is None:
            number = known[text] = len(known) + 1
            self._new += _bytes(field, _number(1, number) + _text(2, text))
        return number

    def _annotation(self, name: str, value: str | int) -> bytes:
        """Return a debug annotation of a TrackEvent."""
        number = self._interned(self._annotations, name, 3)
        shown = _text(6, value) if isinstance(value, str) else _number(3, value)
        return _bytes(4, _number(1, number) + shown)

    def _stack(self, entry: Entry) -> bytes:
        """Return the annotation `stack`, an array with the outermost frame first; or b""."""
        if self._stacks is None:
            return b""
        frames = self._stacks.whole(key_of(entry))
        if not frames:
            return b""
        number = self._interned(self._annotations, "stack", 3)
        shown = [_bytes(12, _text(6, frame_text(frame))) for frame in frames]
        return _bytes(4, _number(1, number) + b"".join(shown))

    def _track(self, thread: Thread) -> int:
        """Return the track of a thread, which is described when it is first asked for."""
        track = self._tracks.get(thread)
        if track is not None:
            return track
        pid, tid = thread
        process = self._processes.get(pid)
        if process is None:
            process = self._processes[pid] = len(self._processes) + len(self._tracks) + 1
            described = _number(1, pid) + _text(6, self._programs.get(pid, ""))
            self._packet(_bytes(60, _number(1, process) + _bytes(3, described)))
        track = self._tracks[thread] = len(self._processes) + len(self._tracks) + 1
        described = _number(1, pid) + _number(2, tid)
        self._packet(_bytes(60, _number(1, track) + _number(5, process) + _bytes(4, described)))
        return track

    def _packet(self, content: bytes) -> None:
        if self._is_first:
            self._begin_sequence()
            self._is_first = False
        packet = content + _number(10, _SEQUENCE) + _number(13, _NEEDS_STATE)
        if self._new:
            packet += _bytes(12, bytes(self._new))
            self._new.clear()
        self._packets += _bytes(1, packet)
        if len(self._packets) > 1 << 20:
            self._flush()

    def _begin_sequence(self) -> None:
        """Say of which clock all times are."""
        clock = _bytes(1, _number(1, _REALTIME) + _number(2, self.first_ns))
        snapshot = _bytes(6, clock + _number(2, _REALTIME))
        defaults = _bytes(59, _number(58, _REALTIME))
        self._packets += _bytes(1, snapshot + _number(10, _SEQUENCE))
        self._packets += _bytes(1, defaults + _number(10, _SEQUENCE) + _number(13, _CLEARED))

    def _flush(self) -> None:
        self._write(bytes(self._packets))
        self._packets.clear()
