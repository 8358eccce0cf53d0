# SPDX-License-Identifier: Apache-2.0
"""speedscope's own JSON: an evented profile for each thread, in nanoseconds.

https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from _collections_abc import Callable
from json.encoder import encode_basestring_ascii as quoted

from soscope.export.settings import ExportSettings
from soscope.export.stacks import ExportStacks, stacks_of
from soscope.export.timeline import Thread, Timeline, names
from soscope.frames.ofcalls import frame_label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry, Exit, ProcessStart
    from soscope.model.stackframe import StackFrame

VIEWER = "open it in https://www.speedscope.app, or type: speedscope FILE"
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls, which are in memory meanwhile; return notes."""
    del settings
    name = " ".join(replay.command) or replay.recording.path
    listener = _Speedscope(write, name, stacks_of(replay))
    replay.run(listener)
    return listener.notes()


_Frame = tuple[str, str, int | None]  # name, image or file, line of an interpreter's


class _Speedscope(Timeline):
    def __init__(
        self, write: Callable[[bytes], object], name: str, stacks: ExportStacks | None
    ) -> None:
        super().__init__()
        self._stacks = stacks
        self._write = write
        self._name = name
        self._frames: dict[_Frame, int] = {}
        self._opened: dict[Thread, list[tuple[Entry, list[_Frame]]]] = {}  # with frames below each
        self._events: dict[Thread, list[str]] = {}
        self._programs: dict[int, str] = {}

    def started(self, event: ProcessStart) -> None:
        self._programs[event.pid] = event.program.rpartition("/")[2]

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        self.opened(thread, entry, time_ns)
        self.closed(thread, entry, None, time_ns)

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        if self._stacks is not None:
            calls = self._opened.setdefault(thread, [])
            around = calls[-1][0] if calls else None
            below = [_of(frame) for frame in self._stacks.inside(entry, around)]
            calls.append((entry, below))
            for frame in below:
                self._add(thread, "O", frame, time_ns)
        self._add(thread, "O", (entry.slot.symbol, names(entry)[1], None), time_ns)

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        self._add(thread, "C", (entry.slot.symbol, names(entry)[1], None), time_ns)
        if self._stacks is not None:
            _, below = self._opened[thread].pop()
            for frame in reversed(below):
                self._add(thread, "C", frame, time_ns)

    def _add(self, thread: Thread, kind: str, key: _Frame, time_ns: int) -> None:
        frame = self._frames.setdefault(key, len(self._frames))
        at = time_ns - self.first_ns
        event = f'{{"type":"{kind}","frame":{frame},"at":{at}}}'
        self._events.setdefault(thread, []).append(event)

    def finished(self) -> None:
        frames = ",".join(
            f'{{"name":{quoted(name)},"file":{quoted(file)}'
            + ("}" if line is None else f',"line":{line}}}')
            for name, file, line in self._frames
        )
        head = (
            f'{{"$schema":{quoted(_SCHEMA)},"exporter":"soscope","name":{quoted(self._name)},'
            f'"shared":{{"frames":[{frames}]}},"profiles":['
        )
        self._write(head.encode())
        end = self.last_ns - self.first_ns
        for number, ((pid, tid), events) in enumerate(self._events.items()):
            program = self._programs.get(pid, "")
            head = (
                f'{"," if number else ""}\n{{"type":"evented",'
                f'"name":{quoted(f"{program} {pid}/{tid}".strip())},"unit":"nanoseconds",'
                f'"startValue":0,"endValue":{end},"events":[\n'
            )
            self._write((head + ",\n".join(events) + "]}").encode())
        self._write(b"]}\n")


def _of(frame: StackFrame) -> _Frame:
    name = frame_label(frame)
    if frame.image is None and frame.file is not None:
        return name, frame.file, frame.line
    return name, frame.image or "", None
