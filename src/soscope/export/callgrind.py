# SPDX-License-Identifier: Apache-2.0
"""Callgrind's format, which KCachegrind, callgrind_annotate and gprof2dot read.

docs/cl-format.xml of valgrind. Costs are times, so the inclusive costs are the measured times.
Functions are identified by file and name. If the file is not known, the image replaces it.
"""

from __future__ import annotations

from soscope.export.profiles import (
    CallGraph,
    ExportSettings,
    GraphEdge,
    GraphNode,
    call_graph_of,
    label,
)
from soscope.instruments.prof.model import NOBODY, ProfFunction
from soscope.model.call import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.prof.model import Profile

VIEWER = "kcachegrind FILE, or callgrind_annotate --inclusive=yes --tree=both FILE"

_TIME, _CALLS, _SAMPLED = "ns", "Calls", "Sampled"
_EVENTS = {
    _TIME: "Nanoseconds",
    _CALLS: "Calls",
    _SAMPLED: "Nanoseconds by samples",
}
_OUTSIDE = "(outside)"


def export_profile(
    profile: Profile, write: Callable[[bytes], object], settings: ExportSettings
) -> list[str]:
    """Write all functions and their calls; return notes."""
    del settings
    graph = call_graph_of(profile)
    writer = _CallgrindBody(graph)
    lines = _head(profile, graph, writer.events)
    lines += writer.body()
    write("\n".join(lines).encode("utf-8", "surrogateescape") + b"\n")
    notes = []
    if len(profile.threads) > 1:
        notes.append("callgrind: all threads are added up")
    if graph.has_samples:
        notes.append("callgrind: of stacks that were sampled, calls= is the number of samples")
    return notes + graph.notes()


def _head(profile: Profile, graph: CallGraph, events: list[str]) -> list[str]:
    lines = ["# callgrind format", "version: 1", "creator: soscope prof"]
    if graph.pid:
        lines.append(f"pid: {graph.pid}")
    lines.append("cmd: " + _line(" ".join(profile.command)))
    lines += [f"desc: Note: {_line(note)}" for note in profile.notes]
    lines.append("positions: line")
    lines += [f"event: {name} : {_EVENTS[name]}" for name in events]
    return [*lines, "events: " + " ".join(events), ""]


class _CallgrindBody:
    """Writes functions one after another; a name is written in full once, then as a number."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph = graph
        self.events = []
        if graph.has_calls or not graph.has_samples:
            self.events.append(_TIME if graph.is_timed else _CALLS)
        if graph.has_samples:
            self.events.append(_SAMPLED)
        self._numbers: dict[tuple[str, str], int] = {}
        self._counts = {"ob": 0, "fl": 0, "fn": 0}
        self._names = _names([node.function for node in graph.nodes])

    def body(self) -> list[str]:
        """Return the lines of all functions, and the sums of their costs."""
        calls: dict[int, list[GraphEdge]] = {}
        for edge in self._graph.edges.values():
            if edge.calls or edge.samples:
                calls.setdefault(edge.caller, []).append(edge)
        lines: list[str] = []
        totals = dict.fromkeys(self.events, 0)
        if NOBODY in calls:
            lines += self._place("", _OUTSIDE, _OUTSIDE, _OUTSIDE)
            lines += self._calls(0, calls[NOBODY])
        for place, node in enumerate(self._graph.nodes):
            inside = calls.get(place, [])
            costs = self._costs(node)
            if not inside and not any(costs.values()):
                continue
            for event, cost in costs.items():
                totals[event] += cost
            line = node.function.line or 0
            lines += self._place("", *self._where(place))
            lines.append(_row(line, costs))
            lines += self._calls(line, inside)
        return [*lines, "", "totals: " + " ".join(str(cost) for cost in totals.values())]

    def _calls(self, line: int, edges: list[GraphEdge]) -> list[str]:
        lines = []
        for edge in edges:
            callee = self._graph.nodes[edge.callee].function
            lines += self._place("c", *self._where(edge.callee))
            lines.append(f"calls={edge.calls or edge.samples} {callee.line or 0}")
            known = {_TIME: edge.total_ns, _CALLS: edge.calls, _SAMPLED: edge.sampled_ns}
            lines.append(_row(line, {event: known[event] for event in self.events}))
        return lines

    def _costs(self, node: GraphNode) -> dict[str, int]:
        known = {_TIME: node.self_ns, _CALLS: node.calls, _SAMPLED: node.sampled_ns}
        return {event: known[event] for event in self.events}

    def _where(self, place: int) -> tuple[str, str, str]:
        function = self._graph.nodes[place].function
        return function.path or function.image or _OUTSIDE, *self._names[place]

    def _place(self, prefix: str, image: str, file: str, name: str) -> list[str]:
        """Return the lines that name a function; the prefix "c" marks a called function."""
        file_key = "fi" if prefix else "fl"
        return [
            f"{prefix}ob={self._compressed('ob', image)}",
            f"{prefix}{file_key}={self._compressed('fl', file)}",
            f"{prefix}fn={self._compressed('fn', name)}",
        ]

    def _compressed(self, kind: str, name: str) -> str:
        number = self._numbers.get((kind, name))
        if number is not None:
            return f"({number})"
        self._counts[kind] += 1
        self._numbers[kind, name] = self._counts[kind]
        return f"({self._counts[kind]}) {_line(name)}"


def _names(functions: list[ProfFunction]) -> list[tuple[str, str]]:
    """Return file and name of each function, made unique."""
    taken: set[tuple[str, str]] = set()
    names = []
    for function in functions:
        file = function.file or function.image or _OUTSIDE
        name = file, label(function)
        if name in taken:
            name = file, f"{label(function)}@{function.addr:#x}"
        number = 1
        base = name[1]
        while name in taken:
            number += 1
            name = file, f"{base} #{number}"
        taken.add(name)
        names.append(name)
    return names


def _row(line: int, costs: dict[str, int]) -> str:
    return " ".join([str(line), *[str(cost) for cost in costs.values()]])


def _line(text: str) -> str:
    return printable(text.replace("\n", " ").replace("\r", " "))
