# SPDX-License-Identifier: Apache-2.0
"""Chrome's Trace Event Format (JSON), for chrome://tracing, ui.perfetto.dev and speedscope.

"Trace Event Format", the JSON Object Format: B and E events. Times are µs since the first event,
because a double cannot hold nanoseconds since 1970. If a profile has no times of single calls,
its slices are call paths, each as long as all its calls together.
"""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted

from soscope.export.calls import (
    CallTimes,
    Thread,
    Timeline,
    call_times_of,
    names,
    texts,
)
from soscope.export.profiles import (
    SAMPLES,
    ExportSettings,
    StackTree,
    forest_of,
    notes_of_slices,
    said_of,
    slices_of,
)
from soscope.frames.names import frame_text, key_of
from soscope.instruments.prof.timeline import BEGIN, END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.prof.model import Profile
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry, Exit


# Events of Chrome's Trace Event Format, the JSON Object Format: times are µs, as decimals.

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

    def name(self, what: str, where: str, name: str) -> None:
        """Name a process or a thread; `where` are the members with its numbers."""
        self.add(f'"ph":"M","name":"{what}_name",{where},"args":{{"name":{quoted(name)}}}')

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

    >>> from soscope.export.chrome import micros
    >>> micros(12_345)
    '12.345'
    """
    whole, rest = divmod(time_ns, 1000)
    return f"{whole}.{rest:03d}"


VIEWER = "open it in https://ui.perfetto.dev or chrome://tracing"
_NO_THREAD = 1 << 30  # above all numbers of the kernel


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls; return notes."""
    listener = _Chrome(write, replay, settings)
    replay.run(listener)
    return listener.notes()


def export_profile(
    profile: Profile, write: Callable[[bytes], object], settings: ExportSettings
) -> list[str]:
    """Write a slice for each call, or for each call path if calls have no times; return notes."""
    del settings
    calls = call_times_of(profile)
    if calls is not None:
        return _export_calls(calls, ChromeEvents(write))
    forest = forest_of(profile, lines=False)
    events = ChromeEvents(write)
    processes: set[int] = set()
    for number, tree in enumerate(forest.trees):
        pid, tid = _track(tree, forest.pid, number)
        where = f'"pid":{pid},"tid":{tid}'
        if pid not in processes:
            processes.add(pid)
            events.name("process", where, forest.program)
        events.name("thread", where, tree.title())
        for place in slices_of(tree):
            at = f'"ts":{micros(place.at)},{where}'
            if not place.is_begin:
                events.add(f'"ph":"E",{at}')
                continue
            frame = forest.frames[tree.frames[place.node]]
            said = ",".join(f'"{name}":{value}' for name, value in said_of(tree, place.node))
            named = f'"name":{quoted(frame.label())},"cat":{quoted(frame.image() or "?")}'
            events.add(f'"ph":"B",{at},{named},"args":{{{said}}}')
    events.end(None)
    return notes_of_slices(forest)


def _export_calls(calls: CallTimes, events: ChromeEvents) -> list[str]:
    processes: set[int] = set()
    said = [
        f'"name":{quoted(frame.label())},"cat":{quoted(frame.image() or "?")}'
        for frame in calls.frames
    ]
    for timeline in calls.timelines:
        thread = calls.thread(timeline)
        where = f'"pid":{thread.pid},"tid":{thread.tid}'
        if thread.pid not in processes:
            processes.add(thread.pid)
            events.name("process", where, calls.program)
        functions = calls.functions(timeline)
        for kind, time_ns, call in timeline.steps():
            at = f'"ts":{micros(time_ns - calls.first_ns)},{where}'
            if kind == BEGIN:
                events.add(f'"ph":"B",{at},{said[functions[call]]}')
            elif kind == END:
                lost = "" if timeline.returns(call) else ',"args":{"ended":""}'
                events.add(f'"ph":"E",{at}{lost}')
            else:
                events.add(f'"ph":"i","s":"t",{at},{said[functions[call]]}')
    events.end(calls.first_ns)
    return calls.notes()


def _track(tree: StackTree, pid: int, number: int) -> tuple[int, int]:
    """Return the process and thread for a viewer. Samples get a thread of their own."""
    if tree.thread is None:
        return pid, _NO_THREAD + number
    is_own = tree.kind != SAMPLES
    return tree.thread.pid, tree.thread.tid if is_own else _NO_THREAD + number


class _Chrome(Timeline):
    def __init__(
        self, write: Callable[[bytes], object], replay: Replay, settings: ExportSettings
    ) -> None:
        super().__init__(replay, settings)
        self._events = ChromeEvents(write)

    def started(self, pid: int, program: str) -> None:
        self._events.name("process", f'"pid":{pid},"tid":0', program)

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        arguments, _, _ = texts(self.prototypes, entry, None, self.limit)
        head = self._head(thread, entry, time_ns)
        self._events.add(
            f'"ph":"i","s":"t",{head},"args":{{"args":{quoted(arguments)}{self._stack(entry)}}}'
        )

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        self._events.add(f'"ph":"B",{self._head(thread, entry, time_ns)}')

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        arguments, result, errno = texts(self.prototypes, entry, leave, self.limit)
        more = [f'"args":{quoted(arguments)}', f'"caller":{quoted(names(entry)[0])}']
        if result:
            more.append(f'"result":{quoted(result)}')
        if errno:
            more.append(f'"errno":{quoted(errno)}')
        if leave is None:
            more.append('"ended":""')
        else:
            more.append(f'"ended":{quoted(leave.ended)}')
            if leave.duration_ns is not None:
                more.append(f'"duration_ns":{leave.duration_ns}')
        pid, tid = thread
        self._events.add(
            f'"ph":"E","ts":{micros(time_ns - self.first_ns)},"pid":{pid},"tid":{tid},'
            f'"args":{{{",".join(more)}{self._stack(entry)}}}'
        )

    def _stack(self, entry: Entry) -> str:
        """Return the member `stack`, outermost frame first, with a comma before it, or ""."""
        if self.stacks is None:
            return ""
        frames = [quoted(frame_text(frame)) for frame in self.stacks.whole(key_of(entry))]
        return f',"stack":[{",".join(frames)}]'

    def finished(self) -> None:
        self._events.end(self.first_ns)

    def _head(self, thread: Thread, entry: Entry, time_ns: int) -> str:
        pid, tid = thread
        name = self.cpp.written(entry.slot.symbol)
        return (
            f'"ts":{micros(time_ns - self.first_ns)},"pid":{pid},"tid":{tid},'
            f'"name":{quoted(name)},"cat":{quoted(names(entry)[1] or "?")}'
        )
