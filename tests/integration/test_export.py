# SPDX-License-Identifier: Apache-2.0
"""`soscope export`: each format, read back by somebody else, holds the calls of the recording."""

from __future__ import annotations

import csv
import json
import os
import stat
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

import soscope
from soscope.recording.calls import Calls
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.targets.build import made_in

pytestmark = pytest.mark.shares

EXPORT = [sys.executable, "-m", "soscope", "export"]
CODE = """
import json, os, threading
thread = threading.Thread(target=lambda: json.dumps(list(range(50))))
thread.start()
thread.join()
os.path.exists('/nope, "quoted"')
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "run.sosr"
    chosen = ["-e", "@*-mem*-str*-pthread*"]
    words = [*SOSCOPE, "-q", *chosen, "--record", str(path), "--", sys.executable]
    assert run([*words, "-I", "-S", "-c", CODE]).returncode == 0
    return path


@pytest.fixture(scope="module")
def calls(file: Path) -> Calls:
    with soscope.open(file) as recording:
        return recording.calls


def export(file: Path, name: str, *options: str) -> bytes:
    out = file.with_name(name)
    done = run([*EXPORT, *options, "-o", str(out), str(file)])
    assert done.returncode == 0, done.stderr
    assert not [path for path in file.parent.iterdir() if path.name.startswith(f".{name}")]
    return out.read_bytes()


def known(calls: Calls) -> Counter[tuple[int, int, str, int]]:
    """Return each call whose end was seen: pid, tid, symbol and ns, and how often."""
    seen = calls[calls.ended == "return"]
    columns = (seen.pid, seen.tid, seen.symbol, seen.duration_ns)
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def slices(events: list[tuple[int, int, str, str, int]]) -> Counter[tuple[int, int, str]]:
    """Count the slices of B and E events (pid, tid, kind, name, time), which have to be nested."""
    counted: Counter[tuple[int, int, str]] = Counter()
    opened: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    latest: dict[tuple[int, int], int] = {}
    for pid, tid, kind, name, time in events:
        thread = pid, tid
        assert time >= latest.get(thread, time)
        latest[thread] = time
        if kind == "B":
            opened[thread].append((name, time))
        elif kind == "E":
            begun, start = opened[thread].pop()
            assert time >= start
            counted[pid, tid, begun] += 1
        else:
            counted[pid, tid, name] += 1
    assert not any(opened.values())
    return counted


def all_of(calls: Calls) -> Counter[tuple[int, int, str]]:
    return Counter(zip(calls.pid.tolist(), calls.tid.tolist(), calls.symbol.tolist(), strict=True))


def test_chrome(file: Path, calls: Calls) -> None:
    trace = json.loads(export(file, "run.chrome.json"))
    events = trace["traceEvents"]
    kinds = {"B": "B", "E": "E", "i": "i"}
    parts = [
        (one["pid"], one["tid"], kinds[one["ph"]], one.get("name", ""), round(one["ts"] * 1000))
        for one in events
        if one["ph"] != "M"
    ]
    assert slices(parts) == all_of(calls)
    assert int(trace["otherData"]["start_time_ns"]) <= calls.time_ns.min()
    ended = [one["args"] for one in events if one["ph"] == "E"]
    assert sum(one.get("duration_ns", 0) for one in ended) == sum(
        calls.duration_ns[calls.duration_ns > 0].tolist()
    )
    assert [one for one in ended if '"/nope, \\"quoted\\""' in one["args"]]
    (process,) = [one for one in events if one["ph"] == "M"]
    assert process["args"]["name"] == os.path.basename(os.path.realpath(sys.executable))


def test_perfetto(file: Path, calls: Calls) -> None:
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(export(file, "run.pftrace"))
    tracks: dict[int, tuple[int, int]] = {}
    names: dict[int, str] = {}
    annotations: dict[int, str] = {}
    events = []
    said: list[dict[str, Any]] = []
    for packet in trace.packet:
        names.update({one.iid: one.name for one in packet.interned_data.event_names})
        new = packet.interned_data.debug_annotation_names
        annotations.update({one.iid: one.name for one in new})
        if packet.HasField("track_descriptor"):
            described = packet.track_descriptor
            if described.HasField("thread"):
                assert described.parent_uuid
                tracks[described.uuid] = described.thread.pid, described.thread.tid
        elif packet.HasField("track_event"):
            event = packet.track_event
            kind = {1: "B", 2: "E", 3: "i"}[event.type]
            name = names[event.name_iid] if event.name_iid else ""
            events.append((*tracks[event.track_uuid], kind, name, packet.timestamp))
            said.append(
                {
                    annotations[one.name_iid]: getattr(one, one.WhichOneof("value"))
                    for one in event.debug_annotations
                }
            )
    assert slices(events) == all_of(calls)
    begun = sorted(time for _, _, kind, _, time in events if kind != "E")
    later = np.array(begun) - np.sort(calls.time_ns)  # where the one before ended later
    assert 0 <= later.min() <= later.max() < 1_000_000
    durations = sum(one.get("duration_ns", 0) for one in said)
    assert durations == sum(calls.duration_ns[calls.duration_ns > 0].tolist())
    nope = [one for one in said if '"/nope, \\"quoted\\""' in one.get("args", "")]
    assert nope
    assert [one for one in nope if "result" in one]


def test_speedscope(file: Path, calls: Calls) -> None:
    document = json.loads(export(file, "run.speedscope.json"))
    frames = [one["name"] for one in document["shared"]["frames"]]
    counted: Counter[str] = Counter()
    for profile in document["profiles"]:
        opened: list[int] = []
        latest = profile["startValue"]
        for event in profile["events"]:
            assert latest <= event["at"] <= profile["endValue"]
            latest = event["at"]
            if event["type"] == "O":
                opened.append(event["frame"])
                counted[frames[event["frame"]]] += 1
            else:
                assert opened.pop() == event["frame"]
        assert not opened
    assert counted == Counter(calls.symbol.tolist())
    assert len(document["profiles"]) == len(set(zip(calls.pid, calls.tid, strict=True))) == 2


def self_times(calls: Calls) -> Counter[str]:
    """Return the time of each function without that of the calls inside it, in ns."""
    spent: Counter[str] = Counter()
    opened: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    columns = (calls.pid, calls.tid, calls.depth, calls.symbol, calls.duration_ns)
    for pid, tid, depth, symbol, duration in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        above = opened[pid, tid]
        del above[depth:]
        if duration >= 0:
            spent[symbol] += duration
            if above and above[-1][1] >= 0:
                spent[above[-1][0]] -= duration
        above.append((symbol, duration))
    return spent


def test_folded_stacks(file: Path, calls: Calls) -> None:
    weights: Counter[str] = Counter()
    for line in export(file, "run.folded").decode().splitlines():
        stack, _, weight = line.rpartition(" ")
        weights[stack.rpartition("`")[2]] += int(weight)
    expected = self_times(calls)
    assert weights.total() == pytest.approx(expected.total(), rel=1e-3)  # none is below zero
    for symbol, _ in expected.most_common(20):
        assert weights[symbol] == pytest.approx(expected[symbol], rel=1e-3), symbol

    counted: Counter[str] = Counter()
    for line in export(file, "calls.folded", "--weight", "calls").decode().splitlines():
        stack, _, weight = line.rpartition(" ")
        counted[stack.rpartition("`")[2]] += int(weight)
    assert counted == Counter(calls.symbol.tolist())


def test_the_firefox_profiler(file: Path, calls: Calls) -> None:
    document = json.loads(export(file, "run.firefox.json"))
    weights: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    for thread in document["threads"]:
        for name, table in thread.items():
            if isinstance(table, dict):
                lengths = {len(column) for column in table.values() if isinstance(column, list)}
                assert lengths <= {table["length"]}, name
        prefixes = thread["stackTable"]["prefix"]
        assert all(prefix is None or prefix < at for at, prefix in enumerate(prefixes))
        samples = thread["samples"]
        assert samples["time"] == sorted(samples["time"])
        for stack, weight in zip(samples["stack"], samples["weight"], strict=True):
            function = thread["frameTable"]["func"][thread["stackTable"]["frame"][stack]]
            symbol = thread["stringArray"][thread["funcTable"]["name"][function]]
            weights[symbol] += round(1e6 * weight)
            counted[symbol] += 1
    assert counted == Counter(calls.symbol.tolist())
    expected = self_times(calls[calls.ended == "return"])
    for symbol, _ in expected.most_common(10):
        assert weights[symbol] == pytest.approx(expected[symbol], rel=0.01), symbol


def test_parquet(file: Path, calls: Calls) -> None:
    export(file, "run.parquet")
    table = pq.read_table(file.with_name("run.parquet"))
    assert table.column_names == list(calls.names)
    for name in ("time_ns", "pid", "tid", "depth", "result", "symbol", "caller", "callee"):
        assert table[name].to_pylist() == getattr(calls, name).tolist(), name
    durations = table["duration_ns"].fill_null(-1).to_pylist()
    assert np.array_equal(durations, calls.duration_ns)


def test_csv(file: Path, calls: Calls) -> None:
    export(file, "run.csv")
    with open(file.with_name("run.csv"), newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert ",".join(rows[0]) == (
        "time_ns,pid,tid,caller,callee,symbol,args,result,errno,duration_ns,ended"
    )
    assert [int(row["time_ns"]) for row in rows] == calls.time_ns.tolist()
    for name in ("symbol", "caller", "callee"):
        assert [row[name] for row in rows] == getattr(calls, name).tolist(), name
    returned = [row for row in rows if row["ended"] == "return"]
    found = (
        (int(row["pid"]), int(row["tid"]), row["symbol"], row["duration_ns"]) for row in returned
    )
    assert Counter((*one[:3], int(one[3])) for one in found) == known(calls)
    looked = [row for row in rows if row["args"].startswith('"/nope, \\"quoted\\""')]
    assert {row["errno"] for row in looked} == {"ENOENT"}


def test_json_lines_are_those_of_the_report(file: Path) -> None:
    shown = run([sys.executable, "-m", "soscope", "report", "-q", "--json", str(file)]).stdout
    assert export(file, "run.jsonl").decode() == shown


def test_functions_of_cpp_are_named_for_viewers_as_they_are_written(tmp_path: Path) -> None:
    source, program, file = (tmp_path / name for name in ("shape.cc", "shape", "run.sosr"))
    source.write_text(
        "namespace ns { struct Shape { int *made(int n); }; }\n"
        "__attribute__((noinline)) int *ns::Shape::made(int n) { return new int[n]; }\n"
        "int main(int n, char **) { return ns::Shape().made(n) == nullptr; }\n"
    )
    made_in(tmp_path, "g++", "-o", program, source)
    words = [*SOSCOPE, "-q", "-k", "-e", "_Znam", "--record", str(file), str(program)]
    assert run(words).returncode == 0
    for name in ("a.pftrace", "a.chrome.json", "a.firefox.json", "a.speedscope.json", "a.folded"):
        made = export(file, name)
        assert b"ns::Shape::made(int)" in made, name
        assert b"operator new[](unsigned long)" in made, name
        assert b"_Znam" not in made, name
        assert b"_ZN2ns" not in made, name
    for name in ("a.csv", "a.jsonl", "a.parquet"):  # tables, in which names are looked for
        assert b"_Znam" in export(file, name)


def test_a_coroutine_ends_with_the_calls_around_it(tmp_path: Path) -> None:
    """Calls of contexts that are swapped end in any order; a viewer can show nested ones alone."""
    file = tmp_path / "run.sosr"
    words = [*SOSCOPE, "-q", "--record", str(file), "--", str(build.program("contexts"))]
    done = run(words)
    assert done.returncode == run([str(build.program("contexts"))]).returncode
    with soscope.open(file) as recording:
        calls = recording.calls
    trace = json.loads(export(file, "run.chrome.json"))
    parts = [
        (one["pid"], one["tid"], one["ph"], one.get("name", ""), round(one["ts"] * 1000))
        for one in trace["traceEvents"]
        if one["ph"] != "M"
    ]
    assert slices(parts) == all_of(calls)


def test_what_cannot_be_exported(tmp_path: Path, file: Path) -> None:
    out = tmp_path / "out"
    counted = tmp_path / "counted.sosr"
    assert (
        run([*SOSCOPE, "-q", "--count-only", "--record", str(counted), "--", "true"]).returncode
        == 0
    )
    for words, status, why in (
        ([str(file)], 2, "no file to write"),
        (["-o", "run.xyz", str(file)], 2, "the ending of 'run.xyz' means no format"),
        (["--format", "gif", "-o", str(out), str(file)], 2, "there is no format 'gif'"),
        (["--weight", "calls", "-o", "a.csv", str(file)], 2, "--weight is for folded stacks"),
        (["--format", "csv", "-o", str(file), str(file)], 2, "-o names the recording itself"),
        (["--format", "csv", "-o", "/nope/a.csv", str(file)], 1, "cannot write '/nope/a.csv'"),
        (["--format", "csv", "-o", str(out), __file__], 1, "not a recording"),
        (["--format", "csv", "-o", str(out), str(counted)], 1, "it has no calls"),
    ):
        done = run([*EXPORT, *words])
        assert done.returncode == status, (words, done.stderr)
        assert why in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr
    assert not out.exists()


def test_the_file_is_replaced_as_a_whole(tmp_path: Path, file: Path) -> None:
    out = tmp_path / "run.csv"
    out.write_text("before")
    damaged = tmp_path / "damaged.sosr"
    damaged.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    done = run([*EXPORT, "-o", str(out), str(damaged)])
    assert done.returncode == 1
    assert out.read_text().startswith("time_ns,")  # up to the damage, and it is said
    assert "damaged.sosr" in done.stderr
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    shown = run([*EXPORT, "--format", "csv", "-o", "-", str(file)])
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0].startswith("time_ns,")
    early = run(["sh", "-c", f"{' '.join(EXPORT)} --format csv -o - {file} | head -1"])
    assert early.stdout == shown.stdout.splitlines()[0] + "\n"
    assert "Traceback" not in early.stderr
