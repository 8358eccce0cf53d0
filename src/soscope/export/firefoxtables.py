# SPDX-License-Identifier: Apache-2.0
"""The processed profile format of the Firefox Profiler, version 48: its tables and document.

docs-developer/processed-profile-format.md and src/types/profile.js of firefox-devtools/profiler.
"""

from __future__ import annotations

from typing import Any

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
