# SPDX-License-Identifier: Apache-2.0
"""A recording that ends before its program: what is in it, and how its calls end."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from soscope.recording.columns import ENDED, columns
from soscope.recording.reader import RecordingFile
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build

REPORT = [sys.executable, "-m", "soscope", "report"]

# Stops the recording when the target has said that it waits, and lets it go on then.
STOP = """
import json, os, sys
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.instrument import TraceRun
from soscope.instruments.trace.settings import TraceSettings
from soscope.model.call import Entry, Exit

class Stopping(Listener):
    calls, ends = [], []
    def events(self, batch):
        for event in batch:
            if isinstance(event, Entry):
                self.calls.append(event.slot.symbol)
                if self.calls.count("read") == 1 and event.slot.symbol == "read":
                    trace.stop("duration")
                    os.write(writer, b"x" * 50)
                    os.close(writer)
            elif isinstance(event, Exit):
                self.ends.append((event.slot.symbol, event.ended))

program, record = sys.argv[1:]
reader, writer = os.pipe()
os.set_inheritable(writer, False)
os.dup2(reader, 0)
listener = Stopping()
trace = TraceRun(
    TraceSettings([program], select=["fcall,read,puts"], record=record, wants_events=True), listener
)
outcome = trace.run()
print(json.dumps([listener.calls, listener.ends, outcome.stopped, outcome.status]))
"""
CALLS = ["fcall", "fcall", "puts", "read"]
ENDS = [["puts", "return"], ["read", "lost"], ["fcall", "lost"], ["fcall", "lost"]]


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_nothing_is_recorded_behind_the_stop(tmp_path: Path) -> None:
    file = tmp_path / "file.sosr"
    words = [sys.executable, "-c", STOP, str(build.program("parked")), str(file)]
    done = run(words)
    assert "woken 4" in done.stdout, done.stderr  # it went on after the stop, to its end
    said = json.loads(done.stdout.splitlines()[-1])
    assert said == [CALLS, ENDS, "duration", 0]
    shown = run([*REPORT, "--json", str(file)])
    calls = [one for one in json_lines(shown.stdout) if one["type"] == "call"]
    assert [one["symbol"] for one in calls] == CALLS
    assert sorted((one["symbol"], one["ended"]) for one in calls) == sorted(map(tuple, ENDS))
    with RecordingFile.open(file) as recording:
        found = columns(recording)
    assert [ENDED[how] for how in found.ended.tolist()] == ["lost", "lost", "return", "lost"]


@pytest.mark.every(2)
@pytest.mark.parametrize("limit", ["90000", "100k", "150001"])
def test_a_call_that_the_limit_cut_may_have_returned(limit: str, tmp_path: Path) -> None:
    file = tmp_path / "file.sosr"
    words = [*SOSCOPE, "--record", str(file), "--max-size", limit, "-e", "f0,fstr", "--"]
    done = run([*words, str(build.program("many_calls")), "30000"])
    assert done.returncode == 0, done.stderr
    shown = run([*REPORT, "--json", str(file)])
    calls = [one for one in json_lines(shown.stdout) if one["type"] == "call"]
    assert 100 < len(calls) < 30000
    assert {one["ended"] for one in calls[:-1]} == {"return"}
    assert calls[-1]["ended"] in {"return", "lost"}
    with RecordingFile.open(file) as recording:
        ended = [ENDED[how] for how in columns(recording).ended.tolist()]
    assert ended == [one["ended"] for one in calls]


def test_each_call_that_was_overwritten_is_counted_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*SOSCOPE, "--json", "-o", str(out), "--buffer", "256K", "--when-full", "overwrite"]
    done = run([*words, "-e", "f0", "--", str(build.program("many_calls")), "30000"])
    assert done.returncode == 0, done.stderr
    lines = json_lines(out.read_text())
    [dropped] = [one for one in lines if one["type"] == "dropped"]
    assert dropped["why"] == "overwritten by newer calls"
    calls = [one for one in lines if one["type"] == "call"]
    assert dropped["count"] + len(calls) == 30000
    assert re.search(f"; {dropped['count']:,} dropped$", done.stderr, re.MULTILINE)
