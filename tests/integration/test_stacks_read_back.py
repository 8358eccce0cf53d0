# SPDX-License-Identifier: Apache-2.0
"""Stacks of calls in what `soscope export` writes, read back; the truth is the program's text."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

import soscope
from soscope.model.call import Entry
from soscope.recording.columns import columns
from soscope.recording.reader import RecordingFile
from soscope.recording.stream import events
from tests.integration.test_export import export
from tests.support.machines.pythons import DISTRIBUTION
from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.build import made_in

# The calls of qsort and getenv lie in each other, and have frames between them.
LIBRARY = """
#include <stdlib.h>
static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b + !getenv("HOME");
}
__attribute__((noinline)) static void sort(int *numbers)
{
    qsort(numbers, 2, sizeof *numbers, compare);
}
void work(void)
{
    int numbers[] = {2, 1};
    sort(numbers);
    getenv("PATH");
}
"""
SCRIPT = """
import ctypes, sys
work = ctypes.CDLL(sys.argv[1]).work
def inner():
    work()  # here
def outer():
    inner()
for _ in range(5):
    outer()
"""
LINES = {
    "inner": SCRIPT[: SCRIPT.index("work()  # here")].count("\n") + 1,
    "outer": SCRIPT[: SCRIPT.index("    inner()")].count("\n") + 1,
}
TIMES = 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stacks")
    (place / "work.c").write_text(LIBRARY)
    (place / "calls.py").write_text(SCRIPT)
    words = ["gcc", "-g", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC"]
    made_in(place, *words, "work.c", "-o", "libwork.so")
    return place


@pytest.fixture(scope="module")
def file(place: Path) -> Path:
    file = place / "run.sosr"
    words = ["-qk", "-e", "qsort+getenv", "--from", "libwork.so"]
    program = [DISTRIBUTION, "-I", "-S", str(place / "calls.py"), str(place / "libwork.so")]
    done = run([*SOSCOPE, "trace", *words, "--record", str(file), "--", *program])
    assert done.returncode == 0, done.stderr
    return file


def is_right(names: list[str], symbol: str) -> bool:
    """Return whether a call's functions, the outermost first, are those of the text."""
    if names[-1] != symbol:
        return False
    known = [name for name in names if name in {"outer", "inner", "work", "sort", "compare"}]
    if symbol == "qsort":
        return known == ["outer", "inner", "work", "sort"] and names[-2] == "sort"
    if known == ["outer", "inner", "work"]:
        return names[-2] == "work"
    return known == ["outer", "inner", "work", "sort", "compare"] and names[-2] == "compare"


def plain(frame: str) -> str:
    """Return the function alone of a frame's text."""
    return frame.rpartition("`")[2].partition(" (")[0]


def test_folded_stacks(file: Path) -> None:
    counted: Counter[str] = Counter()
    for line in export(file, "run.folded", "--weight", "calls").decode().splitlines():
        stack, _, weight = line.rpartition(" ")
        frames = stack.split(";")
        names = [plain(frame) for frame in frames]
        assert is_right(names, names[-1]), line
        assert names[-1] == "qsort" or ("qsort" in names) == ("compare" in names)
        script = file.with_name("calls.py")
        assert {f"{name} ({script}:{at})" for name, at in LINES.items()} <= set(frames)
        counted[names[-1]] += int(weight)
    assert counted == {"qsort": TIMES, "getenv": 2 * TIMES}
    assert counted.keys() == {
        plain(line.rpartition(" ")[0].split(";")[-1])
        for line in export(file, "time.folded").decode().splitlines()
    }


def test_speedscope(file: Path) -> None:
    document = json.loads(export(file, "run.speedscope.json"))
    frames = document["shared"]["frames"]
    (profile,) = document["profiles"]
    opened: list[int] = []
    counted: Counter[str] = Counter()
    for event in profile["events"]:
        if event["type"] == "C":
            assert opened.pop() == event["frame"]
            continue
        opened.append(event["frame"])
        names = [frames[frame]["name"] for frame in opened]
        if names[-1] in {"qsort", "getenv"}:
            assert is_right(names, names[-1])
            counted[names[-1]] += 1
    assert not opened
    assert counted == {"qsort": TIMES, "getenv": 2 * TIMES}
    lines = {one["name"]: one.get("line") for one in frames}
    assert {name: lines[name] for name in LINES} == LINES


def test_the_firefox_profiler(file: Path) -> None:
    document = json.loads(export(file, "run.firefox.json"))
    (thread,) = document["threads"]
    for name, table in thread.items():
        if isinstance(table, dict):
            lengths = {len(column) for column in table.values() if isinstance(column, list)}
            assert lengths <= {table["length"]}, name
    table, frames, functions = thread["stackTable"], thread["frameTable"], thread["funcTable"]
    counted: Counter[str] = Counter()
    for sample in thread["samples"]["stack"]:
        names: list[str] = []
        at: int | None = sample
        while at is not None:
            function = frames["func"][table["frame"][at]]
            names.insert(0, thread["stringArray"][functions["name"][function]])
            file_name = functions["fileName"][function]
            if names[0] in LINES:
                assert frames["line"][table["frame"][at]] == LINES[names[0]]
                assert thread["stringArray"][file_name] == str(file.with_name("calls.py"))
            at = table["prefix"][at]
        assert is_right(names, names[-1]), names
        counted[names[-1]] += 1
    assert counted == {"qsort": TIMES, "getenv": 2 * TIMES}


def test_chrome_and_perfetto(file: Path) -> None:
    trace = json.loads(export(file, "run.chrome.json"))
    ended = [one["args"]["stack"] for one in trace["traceEvents"] if one["ph"] == "E"]
    message = perfetto_trace_pb2.Trace()
    message.ParseFromString(export(file, "run.pftrace"))
    annotations: dict[int, str] = {}
    said: list[list[str]] = []
    for packet in message.packet:
        new = packet.interned_data.debug_annotation_names
        annotations.update({one.iid: one.name for one in new})
        said += [
            [value.string_value for value in one.array_values]
            for one in packet.track_event.debug_annotations
            if annotations[one.name_iid] == "stack"
        ]
    assert said == ended
    assert len(said) == 3 * TIMES
    for stack in said:
        names = [plain(frame) for frame in stack]
        symbol = "qsort" if names[-1] == "sort" else "getenv"
        assert is_right([*names, symbol], symbol)


def test_tables(file: Path) -> None:
    export(file, "run.csv")
    with open(file.with_name("run.csv"), newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0])[-1] == "stack"
    for row in rows:
        names = [plain(frame) for frame in row["stack"].split(";")]
        assert is_right([*names, row["symbol"]], row["symbol"])
    export(file, "run.parquet")
    table = pq.read_table(file.with_name("run.parquet"))
    assert table.column_names[-1] == "stack"
    assert table["stack"].to_pylist() == [row["stack"] for row in rows]
    words = ["report", "-qk", "--json", str(file)]
    assert export(file, "run.jsonl").decode() == run([*SOSCOPE, *words]).stdout


def test_columns_have_the_stacks_of_events(tmp_path: Path) -> None:
    """Calls in each other, and of several threads, with all that is kept of their arguments."""
    file = tmp_path / "run.sosr"
    code = "import threading, json\nfor _ in range(3): threading.Thread(target=json.dumps).start()"
    words = ["-qk", "-e", "malloc+qsort+open*+pthread*+str*", "--from", "all"]
    program = [DISTRIBUTION, "-I", "-S", "-c", code]
    done = run([*SOSCOPE, "trace", *words, "--record", str(file), "--", *program])
    assert done.returncode == 0, done.stderr
    with RecordingFile.open(str(file)) as recording:
        truth = Counter(call_of(event) for event in events(recording) if isinstance(event, Entry))
    for size in (64, None):
        with RecordingFile.open(str(file)) as recording:
            calls = columns(recording, size)
        rows = (calls.tid, calls.slot, calls.arg0, calls.depth, calls.stack)
        assert Counter(zip(*(row.tolist() for row in rows), strict=True)) == truth
    assert len(truth) > 300
    assert 0 not in {row[-1] for row in truth}


def call_of(entry: Entry) -> tuple[Any, ...]:
    return entry.tid, entry.slot.index, entry.captured.words[0], entry.depth, entry.stack


def test_recordings_in_python(file: Path) -> None:
    export(file, "run.csv")
    with open(file.with_name("run.csv"), newline="", encoding="utf-8") as stream:
        texts = [row["stack"] for row in csv.DictReader(stream)]
    with soscope.open(file) as recording:
        calls = recording.calls
        parts = [text for part in recording.batches(rows=4) for text in part.stack]
    assert calls.names[-1] == "stack"
    assert calls.stack.tolist() == parts == texts
    assert calls.to_pandas()["stack"].tolist() == texts
    some = calls[calls.symbol == "qsort"]
    assert len(some) == TIMES
    for at in range(TIMES):
        names = [frame.symbol or "" for frame in reversed(some.frames(at))]
        assert is_right([*names, "qsort"], "qsort")
        assert {frame.symbol: frame.line for frame in some.frames(at) if not frame.image} == {
            **LINES,
            "<module>": SCRIPT.count("\n"),
        }
    assert some[-1].frames(0) == some.frames(TIMES - 1)


def test_traces_in_python(place: Path) -> None:
    program = [DISTRIBUTION, "-I", "-S", str(place / "calls.py"), str(place / "libwork.so")]

    def calls_with(stacks: int) -> list[soscope.Call]:
        words = "qsort,getenv"
        return list(soscope.trace(program, select=words, from_="libwork.so", stacks=stacks))

    calls = calls_with(64)
    assert Counter(call.symbol for call in calls) == {"qsort": TIMES, "getenv": 2 * TIMES}
    for call in calls:
        names = [frame.symbol or "" for frame in reversed(call.stack)]
        assert is_right([*names, call.symbol], call.symbol)
    assert {len([one for one in call.stack if one.image]) for call in calls_with(2)} == {2}
    assert {call.stack for call in calls_with(0)} == {()}
    for number in (-1, 65):
        with pytest.raises(ValueError, match=f"stacks is {number}"):
            soscope.trace(program, stacks=number)
    with pytest.raises(TypeError, match="no stacks"):
        soscope.trace(program, stacks=3, summary=True)
