# SPDX-License-Identifier: Apache-2.0
"""The Firefox Profiler's processed profile format, version 48.

docs-developer/processed-profile-format.md and src/types/profile.js of firefox-devtools/profiler. A
sample stands where a call begins, and weighs the call's self time in ms.
"""

from __future__ import annotations

import json
from _collections_abc import Callable
from typing import Any

from soscope.export.settings import ExportSettings
from soscope.export.stacks import ExportStacks, stacks_of
from soscope.export.timeline import Thread, Timeline, names
from soscope.frames.ofcalls import frame_label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry, Exit, ProcessStart
    from soscope.model.stackframe import StackFrame

VIEWER = "load it in https://profiler.firefox.com"
_VERSION, _GECKO_VERSION = 48, 29
_LIBRARY = 1  # resourceTypes.library


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls, which are in memory meanwhile; return notes."""
    del settings
    listener = _Firefox(stacks_of(replay))
    replay.run(listener)
    product = " ".join(replay.command) or replay.recording.path
    write(json.dumps(listener.document(product)).encode())
    write(b"\n")
    return listener.notes()


_Function = tuple[str, str, str | None]  # name, image, file


class _Samples:
    """The tables of one thread."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.functions: dict[_Function, int] = {}
        self.frames: dict[tuple[int, int | None], int] = {}  # function, line
        self.resources: dict[str, int] = {}
        self.stacks: dict[tuple[int, int], int] = {}  # (prefix or -1, frame) -> its number
        self.stack: list[int] = []
        self.time: list[float] = []
        self.weight: list[float] = []
        self.open: list[tuple[int, int, int]] = []  # stack, sample, ns of the calls inside
        self.around: list[Entry] = []  # the calls that are open, where stacks are known

    def push(self, symbol: str, image: str, time: float, below: list[StackFrame]) -> None:
        """Begin a call; `below` are the frames between it and the call around it."""
        stack = self.open[-1][0] if self.open else -1
        for frame in below:
            function = frame_label(frame), frame.image or "", frame.file
            stack = self._on(stack, function, frame.line)
        stack = self._on(stack, (symbol, image, None), None)
        self.open.append((stack, len(self.stack), 0))
        self.stack.append(stack)
        self.time.append(time)
        self.weight.append(0.0)

    def _on(self, prefix: int, function: _Function, line: int | None) -> int:
        """Return the stack of a frame on another stack."""
        number = self.functions.setdefault(function, len(self.functions))
        frame = self.frames.setdefault((number, line), len(self.frames))
        return self.stacks.setdefault((prefix, frame), len(self.stacks))

    def pop(self, duration_ns: int) -> None:
        """End the last call that has begun."""
        _, sample, inside = self.open.pop()
        self.weight[sample] = max(0, duration_ns - inside) / 1e6
        if self.open:
            stack, outer, ns = self.open[-1]
            self.open[-1] = stack, outer, ns + duration_ns

    def string(self, text: str) -> int:
        """Return the number of a string."""
        return self.strings.setdefault(text, len(self.strings))

    def tables(self) -> dict[str, Any]:
        """Return the thread's members that tables are."""
        functions, frames, stacks = len(self.functions), len(self.frames), len(self.stacks)
        resources = [
            self.resources.setdefault(image, len(self.resources)) if image else -1
            for _, image, _ in self.functions
        ]
        tables: dict[str, Any] = {
            "samples": {
                "length": len(self.stack),
                "stack": self.stack,
                "time": self.time,
                "weight": self.weight,
                "weightType": "tracing-ms",
            },
            "stackTable": {
                "length": stacks,
                "prefix": [None if prefix < 0 else prefix for prefix, _ in self.stacks],
                "frame": [frame for _, frame in self.stacks],
                "category": [0] * stacks,
                "subcategory": [0] * stacks,
            },
            "frameTable": {
                "length": frames,
                "address": [-1] * frames,
                "inlineDepth": [0] * frames,
                "category": [0] * frames,
                "subcategory": [0] * frames,
                "func": [function for function, _ in self.frames],
                "nativeSymbol": [None] * frames,
                "innerWindowID": [0] * frames,
                "implementation": [None] * frames,
                "line": [line for _, line in self.frames],
                "column": [None] * frames,
            },
            "funcTable": {
                "length": functions,
                "name": [self.string(symbol) for symbol, _, _ in self.functions],
                "isJS": [False] * functions,
                "relevantForJS": [False] * functions,
                "resource": resources,
                "fileName": [
                    None if file is None else self.string(file) for _, _, file in self.functions
                ],
                "lineNumber": [None] * functions,
                "columnNumber": [None] * functions,
            },
            "resourceTable": {
                "length": len(self.resources),
                "lib": [None] * len(self.resources),
                "name": [self.string(image) for image in self.resources],
                "host": [None] * len(self.resources),
                "type": [_LIBRARY] * len(self.resources),
            },
            "nativeSymbols": {
                "length": 0,
                "address": [],
                "functionSize": [],
                "libIndex": [],
                "name": [],
            },
            "markers": {
                "length": 0,
                "category": [],
                "data": [],
                "endTime": [],
                "name": [],
                "phase": [],
                "startTime": [],
            },
        }
        tables["stringArray"] = list(self.strings)
        return tables


class _Firefox(Timeline):
    def __init__(self, stacks: ExportStacks | None) -> None:
        super().__init__()
        self._stacks = stacks
        self._threads: dict[Thread, _Samples] = {}
        self._programs: dict[int, str] = {}

    def started(self, event: ProcessStart) -> None:
        self._programs[event.pid] = event.program.rpartition("/")[2]

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        self.opened(thread, entry, time_ns)
        self.closed(thread, entry, None, entry.time_ns)

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        samples = self._threads.get(thread)
        if samples is None:
            samples = self._threads[thread] = _Samples()
        time = (time_ns - self.first_ns) / 1e6
        below: list[StackFrame] = []
        if self._stacks is not None:
            around = samples.around[-1] if samples.around else None
            below = self._stacks.inside(entry, around)
            samples.around.append(entry)
        samples.push(entry.slot.symbol, names(entry)[1], time, below)

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        known = None if leave is None else leave.duration_ns
        samples = self._threads[thread]
        samples.pop(time_ns - entry.time_ns if known is None else known)
        if self._stacks is not None:
            samples.around.pop()

    def document(self, product: str) -> dict[str, Any]:
        """Return the profile."""
        return {
            "meta": {
                "version": _GECKO_VERSION,
                "preprocessedProfileVersion": _VERSION,
                "interval": 1,
                "startTime": self.first_ns / 1e6,
                "processType": 0,
                "product": product,
                "importedFrom": "soscope",
                "stackwalk": 0,
                "debug": False,
                "symbolicated": True,
                "usesOnlyOneStackType": True,
                "doesNotUseFrameImplementation": True,
                "sourceCodeIsNotOnSearchfox": True,
                "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
                "markerSchema": [],
            },
            "libs": [],
            "threads": [
                {
                    "name": self._programs.get(pid) or "thread",
                    "processName": self._programs.get(pid, ""),
                    "isMainThread": pid == tid,
                    "pid": str(pid),
                    "tid": tid,
                    "processType": "default",
                    "processStartupTime": 0,
                    "processShutdownTime": None,
                    "registerTime": 0,
                    "unregisterTime": None,
                    "pausedRanges": [],
                    **samples.tables(),
                }
                for (pid, tid), samples in self._threads.items()
            ],
        }
