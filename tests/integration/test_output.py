# SPDX-License-Identifier: Apache-2.0
"""What people and programs read: the same promises for every way of asking."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.measured import measured
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE, is_whole
from tests.support.schemas import checked as schema
from tests.support.targets import build

REPORT = [sys.executable, "-m", "soscope", "report"]
LINES = {
    "plain": [],
    "everything": ["--from", "all"],
    "followed": ["-f"],
    "entries": ["--entry-only"],
    "short": ["-s", "3"],
}
SHOWN = {
    "text": [],
    "time": ["-t"],
    "microseconds": ["-tt", "-T"],
    "epoch": ["-ttt"],
    "strings": ["-s", "3"],
    "json": ["--json"],
}


@cache
def output() -> str:
    """Return the path of a target that does a little of everything."""
    return str(build.program("output"))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("options", LINES.values(), ids=LINES)
def test_json_lines_are_what_is_promised(options: list[str], tmp_path: Path) -> None:
    path = tmp_path / "lines"
    run([*SOSCOPE, "-q", "--json", "-o", str(path), *options, "--", output()])
    lines = lines_of(path)
    assert not schema.wrong_lines(lines)
    calls = [line for line in lines if line["type"] == "call"]
    assert calls
    if "--entry-only" in options:
        assert {call["ended"] for call in calls} == {None}
    else:
        (puts,) = [call for call in calls if call["symbol"] == "puts" and not call["depth"]]
        assert puts["result"] == {"type": "int", "text": "6", "value": 6}


@pytest.mark.parametrize("options", [["-c"], ["--count-only"]], ids=["summary", "counts"])
@pytest.mark.parametrize("more", [[], ["--from", "all"], ["-f"]], ids=["main", "all", "followed"])
def test_a_summary_is_what_is_promised(options: list[str], more: list[str], tmp_path: Path) -> None:
    path = tmp_path / "document"
    run([*SOSCOPE, "-q", "--json", "-o", str(path), *options, *more, "--", output()])
    document = json.loads(path.read_text())
    assert not schema.wrong_members(document, schema.SUMMARY)
    assert document["exit"] == {"status": 5, "signal": None}
    assert document["totals"]["calls"] == sum(row["calls"] for row in document["rows"])
    timed = [row for row in document["rows"] if row["total_ns"] is not None]
    assert bool(timed) == (options == ["-c"])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a run, with the text that it printed beside it."""
    folder = tmp_path_factory.mktemp("recorded")
    words = ["-f", "--record", str(folder / "run.sosr"), "-o", str(folder / "text")]
    assert run([*SOSCOPE, *words, "--", output()]).returncode == 5
    return folder


def test_a_report_is_what_the_trace_was(recorded: Path) -> None:
    live = (recorded / "text").read_text()
    done = run([*REPORT, str(recorded / "run.sosr")])
    assert (done.returncode, done.stdout) == (0, live)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", SHOWN)
def test_a_report_shows_the_same_lines_whatever_is_asked(name: str, recorded: Path) -> None:
    plain = run([*REPORT, str(recorded / "run.sosr")]).stdout.splitlines()
    done = run([*REPORT, *SHOWN[name], str(recorded / "run.sosr")])
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    if name == "json":
        assert not schema.wrong_lines([json.loads(line) for line in lines])
        return
    assert len(lines) == len(plain)
    if name != "strings":
        assert [without_times(line) for line in lines] == [without_times(line) for line in plain]


def without_times(line: str) -> str:
    """Take the time in front and the duration behind from a line, and blanks for columns."""
    line = re.sub(r"^(\[pid \d+\] )?\d\d[\d:.]* ", lambda found: found[1] or "", line)
    return " ".join(re.sub(r" <\d+\.\d{9}>$", "", line).split())


@pytest.mark.covering(1)
@pytest.mark.parametrize("options", [["-c"], ["--count-only"], ["-c", "--from", "all"]])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_recorded_table_is_what_was_printed(
    options: list[str], as_json: bool, tmp_path: Path
) -> None:
    path, text = tmp_path / "run.sosr", tmp_path / "text"
    more = ["--json"] if as_json else []
    words = [*options, *more, "-f", "--record", str(path), "-o", str(text)]
    run([*SOSCOPE, *words, "--", output()])
    done = run([*REPORT, *more, str(path)])
    live, again = text.read_text(), done.stdout
    if "-c" in options and not as_json:  # the clock is known better at the end
        live, again = (re.sub(r"[\d.]+ ", "", one) for one in (live, again))
    elif "-c" in options:
        live, again = (re.sub(r'_ns": \d+', "", one) for one in (live, again))
    if "-c" in options:  # and rows whose times are nearly the same may change places
        live, again = ("".join(sorted(one.splitlines())) for one in (live, again))
    assert live == again


def test_children_have_their_own_ids(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    run([*SOSCOPE, "-q", "-f", "--json", "-o", str(path), "--", output()])
    lines = lines_of(path)
    (start,) = [one for one in lines if one["type"] == "process" and one["event"] == "start"]
    parent = start["pid"]
    forked = [one for one in lines if one["type"] == "process" and one["event"] == "fork"]
    assert {one["parent"] for one in forked} == {parent}
    calls = [one for one in lines if one["type"] == "call"]
    by_name = {name: [one for one in calls if one["symbol"] == name] for name in ("fork", "vfork")}
    for name, child in (("fork", forked[0]["pid"]), ("vfork", forked[1]["pid"])):
        (call,) = by_name[name]
        assert (call["pid"], call["result"]["value"]) == (parent, child)
        mine = [one["symbol"] for one in calls if one["pid"] == child]
        assert mine[:2] == ["getppid", "_exit"]


def test_vfork_children_are_quiet_when_nobody_follows(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    run([*SOSCOPE, "-q", "--json", "-o", str(path), "--", output()])
    assert "getppid" not in {one["symbol"] for one in lines_of(path) if one["type"] == "call"}


CHILDREN = "i=0; while [ $i -lt 120 ]; do /bin/true; i=$((i+1)); done"
IN_PLACE = 'i=$((${1:-120}-1)); [ $i -eq 0 ] || exec /bin/sh -c "$0" "$0" $i'


@pytest.mark.every(2)
@pytest.mark.parametrize("options", [["-c"], []], ids=["summary", "text"])
@pytest.mark.parametrize("way", ["children", "in place"])
def test_thousands_of_programs_need_few_descriptors(
    way: str, options: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "out"
    script = 'ulimit -n 48; exec "$@"'
    follow, command = (["-f"], [CHILDREN]) if way == "children" else ([], [IN_PLACE, IN_PLACE])
    words = [*SOSCOPE, *follow, *options, "-o", str(path), "--", "/bin/sh", "-c", *command]
    done = measured(["/bin/sh", "-c", script, "sh", *words], tmp_path)
    assert done.status == 0
    assert "untraced" not in done.err
    assert is_whole(done.err)
    assert done.peak <= 64
    text = path.read_text()
    if not options:
        exits = text.count("+++ exited (status 0) +++")
        assert exits == (121 if way == "children" else 1)


def test_depth_counts_hooked_calls(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    run([*SOSCOPE, "-q", "--json", "-e", "qsort,f1@MAIN", "-o", str(path), "--",
         output()])  # fmt: skip
    calls = [one for one in lines_of(path) if one["type"] == "call"]
    (outer,) = [one for one in calls if one["symbol"] == "qsort"]
    inner = [one for one in calls if one["symbol"] == "f1"][:-1]  # the last is the handler's
    assert (outer["depth"], {one["depth"] for one in inner}) == (0, {1})
    assert all(a["time_ns"] <= b["time_ns"] for a, b in pairwise(calls))
    assert outer["result"] is None
