# SPDX-License-Identifier: Apache-2.0
"""`soscope.open`: what a user types in a REPL, against what the program itself and JSON say."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import soscope
from tests.support.processes import launching
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

pytestmark = pytest.mark.shares

REPORT = [sys.executable, "-m", "soscope", "report", "-q"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("open") / "run.sosr"
    code = "import json, os; json.dumps(list(range(99))); os.path.exists('/nope')"
    words = [*SOSCOPE, "-q", "--from", "all", "--record", str(path), "--", sys.executable]
    assert run([*words, "-I", "-S", "-c", code]).returncode == 0
    return path


def test_the_columns_are_the_calls_that_json_has(file: Path) -> None:
    lines = [json.loads(line) for line in run([*REPORT, "--json", str(file)]).stdout.splitlines()]
    shown = sorted((one for one in lines if one["type"] == "call"), key=lambda one: one["time_ns"])
    with soscope.open(file) as recording:
        calls = recording.calls
    assert len(calls) == len(shown) > 1000
    for name in ("time_ns", "pid", "tid", "depth"):
        assert getattr(calls, name).tolist() == [one[name] for one in shown], name
    for name in ("symbol", "version", "caller", "callee", "ended"):
        assert [text or None for text in getattr(calls, name)] == [
            one[name] or None for one in shown
        ], name
    durations = [-1 if one["duration_ns"] is None else one["duration_ns"] for one in shown]
    assert calls.duration_ns.tolist() == durations
    assert calls.failed.tolist() == [bool(one.get("failed")) for one in shown]


def test_some_of_the_calls(file: Path) -> None:
    calls = soscope.open(file).calls
    mallocs = calls[calls.symbol == "malloc"]
    assert 0 < len(mallocs) < len(calls)
    assert set(mallocs.symbol) == {"malloc"}
    assert len(calls[10:20]) == 10
    assert len(calls[3]) == 1
    assert len(calls[calls.duration_ns < -5]) == 0
    assert "<Calls: 0 in columns" in repr(calls[:0])
    assert f"<Calls: {len(calls):,} in columns symbol, " in repr(calls)
    with pytest.raises(AttributeError, match="no column 'size': there are symbol"):
        _ = calls.size


def test_data_frames_and_tables(file: Path) -> None:
    calls = soscope.open(file).calls
    frame = calls.to_pandas()
    assert list(frame.columns) == list(calls.names)
    assert Counter(frame.symbol) == Counter(calls.symbol)
    assert frame.duration_ns.isna().sum() == (calls.duration_ns < 0).sum()
    assert frame.duration_ns.sum() == calls.duration_ns[calls.duration_ns >= 0].sum()
    assert isinstance(frame.symbol.dtype, pd.CategoricalDtype)
    table = calls.to_arrow()
    assert table.column_names == list(calls.names)
    assert table.num_rows == len(calls)
    assert table["symbol"].to_pylist() == calls.symbol.tolist()
    assert table["result"].to_pylist() == calls.result.tolist()
    assert table["errno"].null_count == np.count_nonzero(calls.errno == 0)
    assert calls[:0].to_pandas().empty
    assert calls[:0].to_arrow().num_rows == 0


def test_the_summary_is_that_of_the_report(file: Path) -> None:
    document = json.loads(run([*REPORT, "-c", "--json", str(file)]).stdout)
    with soscope.open(file) as recording:
        rows = recording.summary()
        assert [(row.symbol, row.calls, row.total_ns, row.errors) for row in rows] == [
            (row["symbol"], row["calls"], row["total_ns"], row["errors"])
            for row in document["rows"]
        ]
        # which row is first hangs on the machine
        often = next(row for row in rows if row.calls > 1)
        assert repr(often).startswith(f"<{often.symbol}: {often.calls:,} calls, ")
        once = next(row for row in rows if row.calls == 1)
        assert repr(once).startswith(f"<{once.symbol}: 1 call")
        assert "1 calls" not in repr(once)
        assert {image.name for image in recording.images} >= {"libc.so.6"}
        assert recording._columns is None  # the table does not need them all at once
        calls = recording.calls
        last = run([*REPORT[:-1], str(file)]).stderr.splitlines()[-1]
        end = last.rpartition("; ")[2]
        assert repr(recording).endswith(f", {len(calls):,} calls; {end}>")
        assert recording.complete == (end == "complete")


def test_batches_are_the_calls_in_parts(file: Path) -> None:
    with soscope.open(file) as recording:
        whole = recording.calls
        parts = list(recording.batches(rows=1000))
        assert max(map(len, parts)) == 1000
        for name in whole.names:
            joined = np.concatenate([getattr(part, name) for part in parts])
            assert joined.tolist() == getattr(whole, name).tolist(), name
        assert sum(map(len, recording.batches())) == len(whole)
        with pytest.raises(ValueError, match="rows is 0"):
            next(recording.batches(rows=0))
    with pytest.raises(soscope.SoscopeError, match="has been closed"):
        next(recording.batches())


def test_the_counts_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "counts.sosr"
    words = ["-q", "-c", "--record", str(path), "--", str(build.program("errno"))]
    assert run([*SOSCOPE, *words]).returncode == 0
    recording = soscope.open(path)
    assert {row.symbol: row.errors for row in recording.summary()}["close"] == 50
    assert len(recording.calls) == 0


def test_a_program_that_ran_untraced(tmp_path: Path) -> None:
    path = tmp_path / "untraced.sosr"
    program = launching.compiled("static.c", "-static", text="int main(void) { return 0; }")
    assert run([*SOSCOPE, "-q", "--record", str(path), "--", str(program)]).returncode == 0
    recording = soscope.open(path)
    assert not recording.complete
    assert recording.shortfalls == ["not complete"]
    assert "ran untraced: it is statically linked" in run([*REPORT[:-1], str(path)]).stderr


def test_after_close(file: Path) -> None:
    recording = soscope.open(file)
    calls = recording.calls
    recording.close()
    recording.close()
    assert len(calls) > 1000
    assert repr(recording) == f"<Recording {file}: closed>"
    for ask in ("images", "slots", "complete", "shortfalls", "why"):
        with pytest.raises(soscope.SoscopeError, match="has been closed"):
            getattr(recording, ask)
    with pytest.raises(soscope.SoscopeError, match="has been closed"):
        recording.summary()


def test_a_file_that_nobody_closes_is_closed(file: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    recording = soscope.open(file)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del recording
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_what_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(soscope.SoscopeError, match="is a text, not a recording of soscope"):
        soscope.open(__file__)
    with pytest.raises(soscope.SoscopeError, match="No such file"):
        soscope.open(tmp_path / "nope")
