# SPDX-License-Identifier: Apache-2.0
"""Chrome's Trace Event Format (JSON): chrome://tracing, ui.perfetto.dev, speedscope read it.

"Trace Event Format", the JSON Object Format: B and E events, times in µs since the first one,
as a double cannot hold nanoseconds since 1970.
"""

from __future__ import annotations

from _collections_abc import Callable
from json.encoder import encode_basestring_ascii as quoted

from soscope.export.settings import ExportSettings
from soscope.export.stacks import ExportStacks, stacks_of
from soscope.export.timeline import Thread, Timeline, names, texts
from soscope.frames.ofcalls import frame_text, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry, Exit, ProcessStart

VIEWER = "open it in https://ui.perfetto.dev or chrome://tracing"


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls; return notes."""
    listener = _Chrome(write, settings.string_limit, stacks_of(replay))
    replay.run(listener)
    return listener.notes()


class _Chrome(Timeline):
    def __init__(
        self, write: Callable[[bytes], object], limit: int, stacks: ExportStacks | None
    ) -> None:
        super().__init__()
        self._stacks = stacks
        self._write = write
        self._limit = limit
        self._lines: list[str] = []
        self._is_first = True

    def started(self, event: ProcessStart) -> None:
        name = quoted(event.program.rpartition("/")[2])
        self._add(
            f'"ph":"M","name":"process_name","pid":{event.pid},"tid":0,"args":{{"name":{name}}}'
        )

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        arguments, _, _ = texts(self.prototypes, entry, None, self._limit)
        head = self._head(thread, entry, time_ns)
        self._add(
            f'"ph":"i","s":"t",{head},"args":{{"args":{quoted(arguments)}{self._stack(entry)}}}'
        )

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        self._add(f'"ph":"B",{self._head(thread, entry, time_ns)}')

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        arguments, result, errno = texts(self.prototypes, entry, leave, self._limit)
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
        self._add(
            f'"ph":"E","ts":{self._time(time_ns)},"pid":{pid},"tid":{tid},'
            f'"args":{{{",".join(more)}{self._stack(entry)}}}'
        )

    def _stack(self, entry: Entry) -> str:
        """Return the member `stack`, the outermost frame first, with a comma before it; or ""."""
        if self._stacks is None:
            return ""
        frames = [quoted(frame_text(frame)) for frame in self._stacks.whole(key_of(entry))]
        return f',"stack":[{",".join(frames)}]'

    def finished(self) -> None:
        if self._is_first and not self._lines:
            self._write(b'{"traceEvents":[')
        self._flush()
        end = f'],\n"displayTimeUnit":"ns","otherData":{{"start_time_ns":"{self.first_ns}"}}}}\n'
        self._write(end.encode())

    def _head(self, thread: Thread, entry: Entry, time_ns: int) -> str:
        pid, tid = thread
        return (
            f'"ts":{self._time(time_ns)},"pid":{pid},"tid":{tid},'
            f'"name":{quoted(entry.slot.symbol)},"cat":{quoted(names(entry)[1] or "?")}'
        )

    def _time(self, time_ns: int) -> str:
        whole, rest = divmod(time_ns - self.first_ns, 1000)
        return f"{whole}.{rest:03d}"

    def _add(self, members: str) -> None:
        self._lines.append(f"{{{members}}}")
        if len(self._lines) >= 4096:
            self._flush()

    def _flush(self) -> None:
        if not self._lines:
            return
        start = '{"traceEvents":[\n' if self._is_first else ",\n"
        self._is_first = False
        self._write((start + ",\n".join(self._lines)).encode("utf-8", "surrogateescape"))
        self._lines.clear()
