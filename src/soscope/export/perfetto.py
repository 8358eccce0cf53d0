# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own format: a protobuf message Trace of TracePackets with track events.

There is a track for each thread. Arguments and results are debug annotations of the slice's end.
If a profile has no times of single calls, its slices are call paths, each as long as all its
calls together.
"""

from __future__ import annotations

from soscope.export import calls as calltimes
from soscope.export.calls import (
    CallTimes,
    Thread,
    Timeline,
    call_times_of,
    names,
    texts,
)
from soscope.export.profiles import ExportSettings, forest_of, notes_of_slices, said_of, slices_of
from soscope.export.protobuf import integer, message, string
from soscope.frames.names import frame_text, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.instruments.prof.model import Profile
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry, Exit


# TracePackets of Perfetto's format: tracks, and the events on them.
#
# protos/perfetto/trace/trace.proto, trace_packet.proto, track_event/*.proto have the field numbers.
# Names and categories are interned: the first packet that uses one defines its number.

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
        self._processes: dict[int, int] = {}

    def begin(self, first_ns: int) -> None:
        """Write the clock of all times; this must be the first packet."""
        clock = message(1, integer(1, _REALTIME) + integer(2, first_ns))
        snapshot = message(6, clock + integer(2, _REALTIME))
        defaults = message(59, integer(58, _REALTIME))
        self._packets += message(1, snapshot + integer(10, _SEQUENCE))
        self._packets += message(1, defaults + integer(10, _SEQUENCE) + integer(13, _CLEARED))

    def process(self, pid: int, name: str) -> int:
        """Return the track of a process, which is described on first use."""
        track = self._processes.get(pid)
        if track is None:
            described = message(3, integer(1, pid) + string(6, name))
            track = self._processes[pid] = self._track(described)
        return track

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


VIEWER = "open it in https://ui.perfetto.dev, or query it with trace_processor"


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls; return notes."""
    listener = _Perfetto(write, replay, settings)
    replay.run(listener)
    return listener.notes()


def export_profile(
    profile: Profile, write: Callable[[bytes], object], settings: ExportSettings
) -> list[str]:
    """Write a slice for each call, or for each call path if calls have no times; return notes."""
    del settings
    calls = call_times_of(profile)
    if calls is not None:
        return _export_calls(calls, PerfettoPackets(write))
    forest = forest_of(profile, lines=False)
    packets = PerfettoPackets(write)
    packets.begin(0)
    threads: set[tuple[int, int]] = set()
    for tree in forest.trees:
        thread = tree.thread
        pid = forest.pid if thread is None else thread.pid
        process = packets.process(pid, forest.program)
        if thread is None or (pid, thread.tid) in threads:
            track = packets.named(process, tree.title())
        else:
            threads.add((pid, thread.tid))
            track = packets.thread(process, pid, thread.tid, thread.name)
        for place in slices_of(tree):
            if not place.is_begin:
                packets.event(END, track, place.at, b"")
                continue
            frame = forest.frames[tree.frames[place.node]]
            said = packets.name(frame.label()) + packets.category(frame.image() or "?")
            for name, value in said_of(tree, place.node):
                said += packets.annotation(name, value)
            packets.event(BEGIN, track, place.at, said)
    packets.flush()
    return notes_of_slices(forest)


def _export_calls(calls: CallTimes, packets: PerfettoPackets) -> list[str]:
    packets.begin(calls.first_ns)
    kinds = {calltimes.BEGIN: BEGIN, calltimes.INSTANT: INSTANT}
    said = [
        packets.name(frame.label()) + packets.category(frame.image() or "?")
        for frame in calls.frames
    ]
    left = packets.annotation("ended", "")
    for timeline in calls.timelines:
        thread = calls.thread(timeline)
        process = packets.process(thread.pid, calls.program)
        track = packets.thread(process, thread.pid, thread.tid, thread.name)
        functions = calls.functions(timeline)
        for kind, time_ns, call in timeline.steps():
            if kind == calltimes.END:
                packets.event(END, track, time_ns, b"" if timeline.returns(call) else left)
            else:
                packets.event(kinds[kind], track, time_ns, said[functions[call]])
    packets.flush()
    return calls.notes()


class _Perfetto(Timeline):
    def __init__(
        self, write: Callable[[bytes], object], replay: Replay, settings: ExportSettings
    ) -> None:
        super().__init__(replay, settings)
        self._packets = PerfettoPackets(write)
        self._tracks: dict[Thread, int] = {}

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        arguments, _, _ = texts(self.prototypes, entry, None, self.limit)
        said = self._packets.annotation("args", arguments) + self._stack(entry)
        self._begin(thread, entry, time_ns, INSTANT, said)

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        self._begin(thread, entry, time_ns, BEGIN, b"")

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        arguments, result, errno = texts(self.prototypes, entry, leave, self.limit)
        annotation = self._packets.annotation
        said = [
            annotation("args", arguments),
            annotation("caller", names(entry)[0]),
            annotation("ended", "" if leave is None else leave.ended),
        ]
        if result:
            said.append(annotation("result", result))
        if errno:
            said.append(annotation("errno", errno))
        if leave is not None and leave.duration_ns is not None:
            said.append(annotation("duration_ns", leave.duration_ns))
        said.append(self._stack(entry))
        self._packets.event(END, self._track(thread), time_ns, b"".join(said))

    def finished(self) -> None:
        self._packets.flush()

    def _begin(self, thread: Thread, entry: Entry, time_ns: int, kind: int, more: bytes) -> None:
        track = self._track(thread)
        name = self._packets.name(self.cpp.written(entry.slot.symbol))
        category = self._packets.category(names(entry)[1] or "?")
        self._packets.event(kind, track, time_ns, name + category + more)

    def _stack(self, entry: Entry) -> bytes:
        """Return the annotation `stack`, an array with the outermost frame first, or b""."""
        if self.stacks is None:
            return b""
        frames = self.stacks.whole(key_of(entry))
        if not frames:
            return b""
        return self._packets.texts("stack", [frame_text(frame) for frame in frames])

    def _track(self, thread: Thread) -> int:
        """Return the track of a thread, which is described on first use."""
        track = self._tracks.get(thread)
        if track is not None:
            return track
        if not self._tracks:
            self._packets.begin(self.first_ns)
        pid, tid = thread
        process = self._packets.process(pid, self.programs.get(pid, ""))
        track = self._tracks[thread] = self._packets.thread(process, pid, tid)
        return track
