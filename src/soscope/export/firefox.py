# SPDX-License-Identifier: Apache-2.0
"""The Firefox Profiler's processed profile format.

A sample stands at the start of a call, and its weight is the call's self time in ms. If a profile
has no times of single calls, its samples follow one another, each as far from the next as its
weight.
"""

from __future__ import annotations

import json
from typing import Any

from soscope.export.calls import (
    CallTimes,
    Thread,
    Timeline,
    call_times_of,
    names,
)
from soscope.export.profiles import CALLS, ROOT, ExportSettings, StackTree, forest_of
from soscope.frames.names import frame_label
from soscope.instruments.prof.timeline import BEGIN, END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.export.profiles import Forest
    from soscope.instruments.prof.model import Profile
    from soscope.instruments.trace.replay import Replay
    from soscope.model.call import Entry, Exit, StackFrame


# The processed profile format of the Firefox Profiler, version 48: its tables and document.
#
# docs-developer/processed-profile-format.md and src/types/profile.js of firefox-devtools/profiler.

VERSION, GECKO_VERSION = 48, 29
_LIBRARY = 1  # resourceTypes.library

Function = tuple[str, str, str | None]  # name, image, file


class FirefoxThread:
    """The tables of one thread: strings, functions, frames, stacks, samples.

    `weight_type` is the kind of weights: "tracing-ms", or "samples" for numbers.
    """

    def __init__(self, weight_type: str = "tracing-ms") -> None:
        self.weight_type = weight_type
        self.strings: dict[str, int] = {}
        self.functions: dict[Function, int] = {}
        self.frames: dict[tuple[int, int | None], int] = {}  # function, line
        self.resources: dict[str, int] = {}
        self.stacks: dict[tuple[int, int], int] = {}  # (prefix or -1, frame) -> number
        self.stack: list[int] = []
        self.time: list[float] = []
        self.weight: list[float] = []

    def on(self, prefix: int, function: Function, line: int | None) -> int:
        """Return the stack of a frame on the stack `prefix`, -1 for none."""
        number = self.functions.setdefault(function, len(self.functions))
        frame = self.frames.setdefault((number, line), len(self.frames))
        return self.stacks.setdefault((prefix, frame), len(self.stacks))

    def add(self, stack: int, time: float, weight: float) -> int:
        """Add a sample at a time in ms since the start; return its number."""
        self.stack.append(stack)
        self.time.append(time)
        self.weight.append(weight)
        return len(self.stack) - 1

    def string(self, text: str) -> int:
        """Return the number of a string."""
        return self.strings.setdefault(text, len(self.strings))

    def tables(self) -> dict[str, Any]:
        """Return the members of the thread that are tables."""
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
                "weightType": self.weight_type,
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


def thread(
    tables: FirefoxThread, pid: int, tid: int, *, name: str, process: str, is_main: bool
) -> dict[str, Any]:
    """Return one of the document's threads."""
    return {
        "name": name,
        "processName": process,
        "isMainThread": is_main,
        "pid": str(pid),
        "tid": tid,
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        **tables.tables(),
    }


def document(product: str, start_ms: float, threads: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the profile."""
    return {
        "meta": {
            "version": GECKO_VERSION,
            "preprocessedProfileVersion": VERSION,
            "interval": 1,
            "startTime": start_ms,
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
        "threads": threads,
    }


VIEWER = "load it in https://profiler.firefox.com"
_NO_THREAD = 1 << 30  # above all numbers of the kernel


def export(replay: Replay, write: Callable[[bytes], object], settings: ExportSettings) -> list[str]:
    """Write all calls, which are kept in memory until then; return notes."""
    listener = _Firefox(replay, settings)
    replay.run(listener)
    product = " ".join(replay.command) or replay.recording.path
    _write(write, document(product, listener.first_ns / 1e6, listener.threads()))
    return listener.notes()


def export_profile(
    profile: Profile, write: Callable[[bytes], object], settings: ExportSettings
) -> list[str]:
    """Write a sample for each stack with its time, and another thread with numbers of calls.

    Return notes. If single calls have times, each is a sample, as in the export of a trace.
    """
    del settings
    calls = call_times_of(profile)
    if calls is not None:
        return _export_calls(calls, write)
    forest = forest_of(profile)
    threads: list[dict[str, Any]] = []
    for tree in forest.trees:
        title, pid = tree.title(), forest.pid if tree.thread is None else tree.thread.pid
        shown = [(title, tree.is_timed)]
        if tree.is_timed:
            shown.append((f"{title}: {tree.kind}", False))
        for name, is_timed in shown:
            is_own = tree.thread is not None and tree.kind == CALLS and name == title
            tid = tree.thread.tid if tree.thread and is_own else _NO_THREAD + len(threads)
            tables = _tables(tree, forest, is_timed=is_timed)
            is_main = is_own and pid == tid
            threads.append(
                thread(tables, pid, tid, name=name, process=forest.program, is_main=is_main)
            )
    product = " ".join(profile.command) or "profile"
    _write(write, document(product, 0.0, threads))
    notes = ["a profile has no times of single calls: the order of the samples means nothing"]
    return notes + forest.notes()


def _export_calls(calls: CallTimes, write: Callable[[bytes], object]) -> list[str]:
    threads = []
    shown = [_function(frame.where)[0] for frame in calls.frames]
    for timeline in calls.timelines:
        whose = calls.thread(timeline)
        tables = _Calls()
        functions = calls.functions(timeline)
        begun = []
        for kind, time_ns, call in timeline.steps():
            if kind != END:
                symbol, image, _ = shown[functions[call]]
                tables.push(symbol, image, (time_ns - calls.first_ns) / 1e6, [])
                begun.append(time_ns)
            if kind != BEGIN:
                tables.pop(time_ns - begun.pop())
        threads.append(
            thread(
                tables,
                whose.pid,
                whose.tid,
                name=whose.name or calls.program or "thread",
                process=calls.program,
                is_main=whose.pid == whose.tid,
            )
        )
    _write(write, document(calls.command, calls.first_ns / 1e6, threads))
    return calls.notes()


def _write(write: Callable[[bytes], object], profile: dict[str, Any]) -> None:
    write(json.dumps(profile).encode())
    write(b"\n")


def _tables(tree: StackTree, forest: Forest, *, is_timed: bool) -> FirefoxThread:
    """Return stacks with weights, which are times in ms, or numbers."""
    tables = FirefoxThread("tracing-ms" if is_timed else "samples")
    stacks: list[int] = []
    at = 0
    for node, weight in enumerate(tree.self_ns if is_timed else tree.counts):
        frame = forest.frames[tree.frames[node]]
        parent = tree.parents[node]
        function, line = _function(frame.where)
        stack = tables.on(-1 if parent == ROOT else stacks[parent], function, line)
        stacks.append(stack)
        if weight:
            tables.add(stack, at / 1e6, weight / 1e6 if is_timed else weight)
            at += weight
    return tables


def _function(frame: StackFrame) -> tuple[Function, int | None]:
    return (frame_label(frame), frame.image or "", frame.file), frame.line


class _Calls(FirefoxThread):
    """The tables of a thread, some of whose calls are open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[int, int, int]] = []  # stack, sample, ns of nested calls
        self.around: list[Entry] = []  # open calls, if stacks are known

    def push(self, symbol: str, image: str, time: float, below: list[StackFrame]) -> None:
        """Begin a call; `below` are the frames between it and the call around it."""
        stack = self.open[-1][0] if self.open else -1
        for frame in below:
            stack = self.on(stack, *_function(frame))
        stack = self.on(stack, (symbol, image, None), None)
        self.open.append((stack, self.add(stack, time, 0.0), 0))

    def pop(self, duration_ns: int) -> None:
        """End the call that began last."""
        _, sample, inside = self.open.pop()
        self.weight[sample] = max(0, duration_ns - inside) / 1e6
        if self.open:
            stack, outer, ns = self.open[-1]
            self.open[-1] = stack, outer, ns + duration_ns


class _Firefox(Timeline):
    def __init__(self, replay: Replay, settings: ExportSettings) -> None:
        super().__init__(replay, settings)
        self._threads: dict[Thread, _Calls] = {}

    def instant(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        self.opened(thread, entry, time_ns)
        self.closed(thread, entry, None, entry.time_ns)

    def opened(self, thread: Thread, entry: Entry, time_ns: int) -> None:
        calls = self._threads.get(thread)
        if calls is None:
            calls = self._threads[thread] = _Calls()
        time = (time_ns - self.first_ns) / 1e6
        below: list[StackFrame] = []
        if self.stacks is not None:
            around = calls.around[-1] if calls.around else None
            below = self.stacks.inside(entry, around)
            calls.around.append(entry)
        calls.push(self.cpp.written(entry.slot.symbol), names(entry)[1], time, below)

    def closed(self, thread: Thread, entry: Entry, leave: Exit | None, time_ns: int) -> None:
        known = None if leave is None else leave.duration_ns
        calls = self._threads[thread]
        calls.pop(time_ns - entry.time_ns if known is None else known)
        if self.stacks is not None:
            calls.around.pop()

    def threads(self) -> list[dict[str, Any]]:
        """Return the document's threads."""
        return [
            thread(
                calls,
                pid,
                tid,
                name=self.programs.get(pid) or "thread",
                process=self.programs.get(pid, ""),
                is_main=pid == tid,
            )
            for (pid, tid), calls in self._threads.items()
        ]
