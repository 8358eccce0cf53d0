# SPDX-License-Identifier: Apache-2.0
"""speedscope's own JSON, in nanoseconds: each thread's calls, or its stacks with weights.

https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted

from soscope.export.calls import (
    CallTimes,
    Thread,
    Timeline,
    call_times_of,
    names,
)
from soscope.export.profiles import ROOT, ExportSettings, forest_of
from soscope.frames.names import frame_label
from soscope.instruments.prof.timeline import BEGIN, END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.export.profiles import StackTree
    from soscope.instruments.prof.model import Profile
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry, Exit, StackFrame

VIEWER = "open it in https://www.speedscope.app, or type: speedscope FILE"
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_NANOSECONDS, _NO_UNIT = "nanoseconds", "none"


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls, which are kept in memory until then; return notes."""
    listener = _Speedscope(write, replay, settings)
    replay.run(listener)
    return listener.notes()


def export_profile(
    profile: Profile, write: Callable[[bytes], object], settings: ExportSettings
) -> list[str]:
    """Write each thread's calls, or its stacks with their times and counts; return notes."""
    del settings
    calls = call_times_of(profile)
    if calls is not None:
        return _export_calls(calls, write)
    forest = forest_of(profile)
    numbers: dict[_Frame, int] = {}
    frames = [numbers.setdefault(_of(frame.where), len(numbers)) for frame in forest.frames]
    profiles = []
    for tree in forest.trees:
        title = tree.title()
        if tree.is_timed:
            profiles.append(_weighed(title, _NANOSECONDS, tree, tree.self_ns, frames))
            title += f": {tree.kind}"
        profiles.append(_weighed(title, _NO_UNIT, tree, tree.counts, frames))
    _write_document(write, " ".join(profile.command) or "profile", numbers, profiles)
    return forest.notes()


def _export_calls(calls: CallTimes, write: Callable[[bytes], object]) -> list[str]:
    numbers: dict[_Frame, int] = {}
    frames = [numbers.setdefault(_of(frame.where), len(numbers)) for frame in calls.frames]
    end = calls.last_ns - calls.first_ns

    def profiles() -> Iterable[str]:
        for timeline in calls.timelines:
            thread = calls.thread(timeline)
            functions = calls.functions(timeline)
            events = []
            for kind, time_ns, call in timeline.steps():
                said = f'"frame":{frames[functions[call]]},"at":{time_ns - calls.first_ns}}}'
                if kind != END:
                    events.append(f'{{"type":"O",{said}')
                if kind != BEGIN:
                    events.append(f'{{"type":"C",{said}')
            name = f"{calls.program} {thread.pid}/{thread.tid}".strip()
            yield _evented(name, end, events)

    _write_document(write, calls.command, numbers, profiles())
    return calls.notes()


_Frame = tuple[str, str, int | None]  # name, image or file, line in an interpreter's code


def _weighed(name: str, unit: str, tree: StackTree, weights: list[int], frames: list[int]) -> str:
    """Return a profile of stacks, outermost frame first, with their weights."""
    stacks: list[str] = []
    for frame, parent in zip(tree.frames, tree.parents, strict=True):
        below = "" if parent == ROOT else f"{stacks[parent]},"
        stacks.append(f"{below}{frames[frame]}")
    nodes = [node for node, weight in enumerate(weights) if weight]
    samples = ",".join([f"[{stacks[node]}]" for node in nodes])
    shown = ",".join([str(weights[node]) for node in nodes])
    return (
        f'{{"type":"sampled","name":{quoted(name)},"unit":"{unit}",'
        f'"startValue":0,"endValue":{sum(weights)},\n'
        f'"samples":[{samples}],\n"weights":[{shown}]}}'
    )


def _evented(name: str, end: int, events: list[str]) -> str:
    """Return a profile of calls, as events that open and close frames."""
    return (
        f'{{"type":"evented","name":{quoted(name)},"unit":"{_NANOSECONDS}",'
        f'"startValue":0,"endValue":{end},"events":[\n' + ",\n".join(events) + "]}"
    )


def _write_document(
    write: Callable[[bytes], object], name: str, frames: Iterable[_Frame], profiles: Iterable[str]
) -> None:
    shown = ",".join(
        f'{{"name":{quoted(frame)},"file":{quoted(file)}'
        + ("}" if line is None else f',"line":{line}}}')
        for frame, file, line in frames
    )
    head = (
        f'{{"$schema":{quoted(_SCHEMA)},"exporter":"soscope","name":{quoted(name)},'
        f'"shared":{{"frames":[{shown}]}},"profiles":['
    )
    write(head.encode())
    for number, profile in enumerate(profiles):
        write(f"{',' if number else ''}\n{profile}".encode())
    write(b"]}\n")


class _Speedscope(Timeline):
    def __init__(
        self, write: Callable[[bytes], object], replay: Replay, settings: ExportSettings
    ) -> None:
        super().__init__(replay, settings)
        self._write = write
        self._name = " ".join(replay.command) or replay.recording.path
        self._frames: dict[_Frame, int] = {}
        self._opened: dict[Thread, list[tuple[Entry, list[_Frame]]]] = {}  # with frames below
        self._events: dict[Thread, list[str]] = {}

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        self.opened(thread, entry, time_ns)
        self.closed(thread, entry, None, time_ns)

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        if self.stacks is not None:
            calls = self._opened.setdefault(thread, [])
            around = calls[-1][0] if calls else None
            below = [_of(frame) for frame in self.stacks.inside(entry, around)]
            calls.append((entry, below))
            for frame in below:
                self._add(thread, "O", frame, time_ns)
        self._add(thread, "O", self._function(entry), time_ns)

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        self._add(thread, "C", self._function(entry), time_ns)
        if self.stacks is not None:
            _, below = self._opened[thread].pop()
            for frame in reversed(below):
                self._add(thread, "C", frame, time_ns)

    def _function(self, entry: Entry) -> _Frame:
        return self.cpp.written(entry.slot.symbol), names(entry)[1], None

    def _add(self, thread: Thread, kind: str, key: _Frame, time_ns: int) -> None:
        frame = self._frames.setdefault(key, len(self._frames))
        at = time_ns - self.first_ns
        event = f'{{"type":"{kind}","frame":{frame},"at":{at}}}'
        self._events.setdefault(thread, []).append(event)

    def finished(self) -> None:
        end = self.last_ns - self.first_ns
        profiles = (
            _evented(f"{self.programs.get(pid, '')} {pid}/{tid}".strip(), end, events)
            for (pid, tid), events in self._events.items()
        )
        _write_document(self._write, self._name, self._frames, profiles)


def _of(frame: StackFrame) -> _Frame:
    name = frame_label(frame)
    if frame.image is None and frame.file is not None:
        return name, frame.file, frame.line
    return name, frame.image or "", None
