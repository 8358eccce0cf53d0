# SPDX-License-Identifier: Apache-2.0
"""Profiles as slices of a line: Chrome's and Perfetto's formats."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from soscope.export import chrome, perfetto
from soscope.export.profiles import ExportSettings
from soscope.instruments.prof.model import Profile, ProfSample
from soscope.model.call import StackFrame
from tests.support.files import profiles
from tests.support.files.profiles import SEEN, WAYS


class Event(NamedTuple):
    track: str
    is_begin: bool
    time_ns: int
    name: str
    said: dict[str, int]


def of_chrome(profile: Profile) -> tuple[list[Event], list[str]]:
    parts: list[bytes] = []
    notes = chrome.export_profile(profile, parts.append, ExportSettings())
    events = json.loads(b"".join(parts))["traceEvents"]
    titles = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in events
        if one["name" if one["ph"] == "M" else "ph"] == "thread_name"
    }
    (program,) = {one["args"]["name"] for one in events if one.get("name") == "process_name"}
    assert program == "python3"
    return [
        Event(
            titles[one["pid"], one["tid"]],
            one["ph"] == "B",
            round(one["ts"] * 1000),
            one.get("name", ""),
            one.get("args", {}),
        )
        for one in events
        if one["ph"] != "M"
    ], notes


def of_perfetto(profile: Profile) -> tuple[list[Event], list[str]]:
    parts: list[bytes] = []
    notes = perfetto.export_profile(profile, parts.append, ExportSettings())
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(b"".join(parts))
    names: dict[int, str] = {}
    annotations: dict[int, str] = {}
    titles: dict[int, str] = {}
    events = []
    for packet in trace.packet:
        names.update({one.iid: one.name for one in packet.interned_data.event_names})
        new = packet.interned_data.debug_annotation_names
        annotations.update({one.iid: one.name for one in new})
        described = packet.track_descriptor
        if described.HasField("thread"):
            thread = described.thread
            titles[described.uuid] = f"{thread.thread_name} {thread.pid}/{thread.tid}"
        elif described.name:
            assert described.parent_uuid
            titles[described.uuid] = described.name
        if packet.HasField("track_event"):
            event = packet.track_event
            said = {annotations[one.name_iid]: one.int_value or one.uint_value
                    for one in event.debug_annotations}  # fmt: skip
            is_begin = event.type == 1
            assert event.type in {1, 2}
            name = names[event.name_iid] if is_begin else ""
            title = titles[event.track_uuid]
            events.append(Event(title, is_begin, packet.timestamp, name, said))
    return events, notes


READERS = pytest.mark.parametrize("read", [of_chrome, of_perfetto])


def slices(events: list[Event]) -> dict[tuple[str, tuple[str, ...]], tuple[int, dict[str, int]]]:
    """Return length and annotations of each slice by track and stack, which have to be nested."""
    found: dict[tuple[str, tuple[str, ...]], tuple[int, dict[str, int]]] = {}
    opened: dict[str, list[Event]] = {}
    latest: dict[str, int] = {}
    for event in events:
        assert event.time_ns >= latest.get(event.track, 0)
        latest[event.track] = event.time_ns
        around = opened.setdefault(event.track, [])
        if event.is_begin:
            around.append(event)
            continue
        stack = tuple(one.name for one in around)
        begun = around.pop()
        assert (event.track, stack) not in found
        found[event.track, stack] = event.time_ns - begun.time_ns, begun.said
    assert not any(opened.values())
    return found


def width(stacks: profiles.Stacks, tid: int, stack: tuple[str, ...], which: int) -> int:
    """Return what a stack and all that stand on it have."""
    return sum(
        values[which]
        for (thread, other), values in stacks.items()
        if thread == tid and other[: len(stack)] == stack
    )


@READERS
def test_a_slice_is_as_long_as_all_calls_of_its_way(read: Any) -> None:
    events, notes = read(profiles.both())
    found = slices(events)
    assert "a profile has no times of single calls" in notes[0]
    for stacks, tail in ((WAYS, ""), (SEEN, " (samples)")):
        for (tid, stack), (count, self_ns) in stacks.items():
            name = {100: "python3 100/100", 101: "worker 100/101"}[tid] + tail
            length, said = found.pop((name, stack))
            assert length == width(stacks, tid, stack, 1)
            assert said["samples" if tail else "calls"] == count
            assert said["self_ns"] == self_ns
            if not tail:
                assert said["total_ns"] == length
    for (_, stack), (_, said) in found.items():  # what was only called through
        assert stack in {("PyObject_Call",), ("main",)}
        assert said.get("calls", said.get("samples")) == 0


@READERS
def test_the_longest_way_comes_first(read: Any) -> None:
    events, _ = read(profiles.trees())
    begun = [one.name for one in events if one.is_begin and one.track == "python3 100/100"]
    assert begun == ["PyObject_Call", "parse", "step", "mul", "fib", "fib"]


@READERS
def test_without_times_a_call_is_a_nanosecond(read: Any) -> None:
    events, notes = read(profiles.counted())
    found = slices(events)
    assert found["all threads", ("parse", "step")] == (10_000_000_000, {"calls": 10_000_000_000})
    assert "the time of calls is not known: each is shown as one nanosecond" in notes


@READERS
def test_lines_of_a_function_are_one_slice(read: Any) -> None:
    profile = profiles.sampled()
    frames = [StackFrame(None, "main", None, "run.py", line) for line in (7, 8)]
    profile.samples = [ProfSample(profiles.MAIN, (frame,), 3) for frame in frames]
    found = slices(read(profile)[0])
    assert {stack: length for (_, stack), (length, _) in found.items()} == {("main",): 60_000_000}
