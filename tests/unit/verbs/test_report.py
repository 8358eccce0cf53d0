# SPDX-License-Identifier: Apache-2.0
"""`soscope report` shows what `soscope trace` would have shown."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.replay import Replay
from soscope.model.call import Event, ProcessExit, ProcessStart
from soscope.recording import format as form
from soscope.recording.drain import Feed
from soscope.recording.writer import Writer
from soscope.verbs.main import main
from soscope.wire import layout
from tests.unit.recording.fake import EPOCH, FakeAgent, FakeSampler, make_block


class Recorded:
    """A recording of a fake program that calls malloc `calls` times."""

    def __init__(
        self, path: Path, *, mode: str = "trace", finish: bool = True, calls: int = 3
    ) -> None:
        wire_mode = {
            "trace": layout.INSTRUMENT_TRACE,
            "count": layout.INSTRUMENT_COUNT,
            "summary": layout.INSTRUMENT_STATS,
        }[mode]
        options: dict[str, object] = {"mode": mode, "select": ["malloc"], "from": [], "to": []}
        writer = Writer(
            os.fspath(path), command=["program", "-x"], options=options, versions={}, start_ns=EPOCH
        )
        sampler = FakeSampler()
        feed = Feed(writer, sampler)
        sampler.now = 50_000
        block = make_block(16 if mode == "trace" else 0, mode=wire_mode)
        agent = FakeAgent(block)
        feed.add(block, "/bin/program", 100)
        agent.image("program", flags=layout.IMAGE_MAIN)
        agent.image("libc.so.6")
        slot = agent.slot("malloc", error_rule=layout.ERROR_NULL)
        self.feed = feed
        feed.event(ProcessStart(EPOCH, 100, "start", None, "/bin/program"))
        if mode == "trace":
            thread = agent.thread()
            for number in range(calls):
                thread.enter(slot, 1000, arg0=64)
                thread.leave(slot, 1000, result=0x5000 + number)
        feed.drain()
        sampler.now = 100_000
        if not finish:
            feed.drain()
            feed.drain()
            writer.close()
            return
        feed.event(ProcessExit(EPOCH + (1 << 20), 100, 0, None))
        feed.finish()
        if mode == "count":
            writer.counts(0, {slot: 3})
        if mode == "summary":
            writer.stats(0, {slot: (3, 3, 0, 600, 100, 300, 600)})
        writer.end(complete=True, why="exit", status=0, totals={"calls": 3})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Say where the recording is."""
    return tmp_path / "run.sosr"


def test_nothing_more_is_read_when_nobody_listens(path: Path) -> None:
    Recorded(path, calls=3000)
    batches: list[int] = []

    class Gone(Listener):
        def events(self, batch: list[Event]) -> None:
            batches.append(len(batch))

    replay = Replay(path)
    replay.run(Gone(), lambda: not batches)
    replay.close()
    assert len(batches) <= 2  # the first one, and what was in hand
    assert sum(batches) < 2000


def test_the_text_is_that_of_the_trace(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Recorded(path)
    assert main(["report", "-T", os.fspath(path)]) == 0
    out, err = capfd.readouterr()
    lines = out.splitlines()
    assert lines[0] == "program->malloc(64)                              = 0x5000 <0.000000005>"
    assert len(lines) == 4
    assert lines[-1] == "+++ exited (status 0) +++"
    assert err.splitlines()[-1] == "soscope: 3 calls through 0 slots"


def test_json_has_every_call(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Recorded(path)
    assert main(["report", "--json", "-q", os.fspath(path)]) == 0
    out, err = capfd.readouterr()
    objects = [json.loads(line) for line in out.splitlines()]
    assert [one["type"] for one in objects] == ["process", "call", "call", "call", "exit"]
    assert objects[1]["result"]["value"] == "0x5000"
    assert err == ""


def test_a_summary_is_a_table_again(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Recorded(path, mode="summary")
    assert main(["report", os.fspath(path)]) == 0
    assert capfd.readouterr().out.splitlines()[2].split()[-6:] == [
        *("3", "0", "0.000000300", "0.050", "0.150", "malloc"),
    ]
    assert main(["report", "--json", os.fspath(path)]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["command"] == ["program", "-x"]
    assert document["rows"][0]["total_ns"] == 300


def test_counts_alone_are_a_table_again(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Recorded(path, mode="count")
    assert main(["report", os.fspath(path)]) == 0
    assert capfd.readouterr().out.splitlines()[2].split() == ["3", "malloc"]


def test_a_recording_that_was_cut_off_is_shown_and_is_status_1(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Recorded(path, finish=False)
    assert main(["report", os.fspath(path)]) == 1
    out, err = capfd.readouterr()
    assert out.count("malloc(64)") == 3
    assert "cut" in err.splitlines()[-1]


def test_damage_is_named_with_its_offset(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Recorded(path)
    data = bytearray(path.read_bytes())
    data[-10] ^= 0xFF
    path.write_bytes(data)
    assert main(["report", os.fspath(path)]) == 1
    assert "damaged at offset" in capfd.readouterr().err


def test_o_writes_to_a_file(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Recorded(path)
    target = path.with_suffix(".txt")
    assert main(["report", "-o", os.fspath(target), os.fspath(path)]) == 0
    assert capfd.readouterr().out == ""
    assert target.read_text().count("malloc(64)") == 3


@pytest.mark.parametrize("content", [b"", b"not a recording at all, but long enough for it"])
def test_what_is_no_recording_is_an_error(
    path: Path, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    path.write_bytes(content)
    assert main(["report", os.fspath(path)]) == 1
    assert "not a recording of soscope\n" in capfd.readouterr().err


def test_a_recording_that_is_not_there_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "/nosuch.sosr"]) == 1
    assert "cannot open" in capfd.readouterr().err


def test_a_recording_of_a_later_schema_says_what_can_show_it(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = b'{"schema":"soscope/recording/2"}'
    path.write_bytes(b"".join(form.block(form.META, body)))
    assert main(["report", os.fspath(path)]) == 1
    said = capfd.readouterr().err
    assert "'soscope/recording/2' instead of 'soscope/recording/1'" in said
    assert "hint: show it with the version of soscope that made it, or a newer one" in said
