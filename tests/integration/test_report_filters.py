# SPDX-License-Identifier: Apache-2.0
"""`report` chooses among the calls of a recording: the same as reading all of them does."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.processes.tracing import SOSCOPE

pytestmark = pytest.mark.shares

REPORT = [sys.executable, "-m", "soscope", "report", "-q"]
Event = dict[str, Any]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a program with children and failures, with all calls of all images."""
    file = tmp_path_factory.mktemp("filters") / "run.sosr"
    script = 'system("true"); for (1..50) { open(F, "/nope/$_") } open(F, "/dev/null"); print 3'
    words = ["-q", "-f", "--from", "all", "--record", os.fspath(file), "--buffer", "64m", "--"]
    done = run([*SOSCOPE, *words, need("perl"), "-e", script])
    assert (done.returncode, done.stdout) == (0, "3"), done.stderr
    return file


def events(file: Path, *words: str) -> list[Event]:
    """Return what a report says in JSON."""
    done = run([*REPORT, "--json", *words, os.fspath(file)])
    assert done.returncode == 0, done.stderr
    *lines, cost = map(json.loads, done.stdout.splitlines())
    assert cost["type"] == "cost"
    return lines


@pytest.fixture(scope="module")
def everything(recording: Path) -> list[Event]:
    """Return all events."""
    return events(recording)


def calls(events: list[Event]) -> list[str]:
    """Return calls in an order of their own."""
    return sorted(json.dumps(event) for event in events if event["type"] == "call")


def matches(event: Event, pattern: str, member: str = "symbol") -> bool:
    """Return whether a name of a call matches a glob; `open` is in `__open64_2`, too."""
    bare = re.sub(r"^__(?:isoc\d\d_)?(.+?)(?:_chk|_2)?$", r"\1", event[member])
    return any(fnmatch.fnmatchcase(name, pattern) for name in (event[member], bare))


def spent(event: Event) -> int:
    """Return the ns that a call took."""
    return -1 if event["duration_ns"] is None else event["duration_ns"]


Chooses = Callable[[Event], bool]
CASES: dict[str, tuple[list[str], Chooses]] = {
    "symbol": (["-e", "mem*"], lambda e: matches(e, "mem*")),
    "several": (["-e", "open*,close", "-e", "read"],
                lambda e: matches(e, "open*") or e["symbol"] in ("close", "read")),
    "excluded": (["-e", "-mem*"], lambda e: not matches(e, "mem*")),
    "caller": (["--from", "libc.so*"], lambda e: matches(e, "libc.so*", "caller")),
    "rule with a caller": (["-e", "*@libc.so*"], lambda e: matches(e, "libc.so*", "caller")),
    "callee": (["-l", "libc.so*"], lambda e: matches(e, "libc.so*", "callee")),
    "both": (["-e", "str*", "-l", "libc.so*"],
             lambda e: matches(e, "str*") and matches(e, "libc.so*", "callee")),
    "slower": (["--slower", "5us"], lambda e: spent(e) >= 5000 and e["ended"] == "return"),
    "failed": (["-Z"], lambda e: bool(e.get("failed"))),
    "successful": (["-z"], lambda e: e["ended"] == "return" and not e.get("failed")),
    "outermost": (["--depth", "1"], lambda e: e["depth"] < 1),
    "two levels": (["--depth", "2", "-e", "m*"], lambda e: e["depth"] < 2 and matches(e, "m*")),
    "a size": (["--where", "size > 1000", "-e", "malloc"],
               lambda e: e["symbol"] == "malloc" and e["args"][0]["value"] > 1000),
    "an argument": (["--where", "arg2 == 0x2f"],
                    lambda e: len(e["args"]) > 1 and e["args"][1]["value"] == 0x2F),
    "a negative result": (["--where", "ret < 0", "-e", "open*"],
                          lambda e: matches(e, "open*") and e["result"]["value"] < 0),
    "an error": (["--where", "errno == ENOENT"], lambda e: e["errno"] == "ENOENT"),
    "a duration": (["--where", "duration >= 5us and ended == 'return'"],
                   lambda e: spent(e) >= 5000 and e["ended"] == "return"),
    "names": (["--where", "symbol ~ 'str*' and not caller == 'libc.so.6'"],
              lambda e: matches(e, "str*") and e["caller"] != "libc.so.6"),
    "a text": (["--where", "path == '/nope/7' or path ~ '*/9'"],
               lambda e: matches(e, "open*") and e["args"][0]["value"] in ("/nope/7", "/nope/9")),
    "a flag": (["--where", "flags & O_CLOEXEC"],
               lambda e: any("O_CLOEXEC" in argument["text"] for argument in e["args"])),
    "inner calls": (["--where", "depth > 0"], lambda e: e["depth"] > 0),
    "a path": (["-P", "/nope/7"], lambda e: "/nope/7" in [a["value"] for a in e["args"]]),
    "both conditions": (["--where", "size > 100", "--where", "size < 200", "-e", "malloc,calloc"],
                        lambda e: (e["symbol"] == "malloc" and 100 < e["args"][0]["value"] < 200)
                        or (e["symbol"] == "calloc" and 100 < e["args"][1]["value"] < 200)),
    "failed opens": (["-Z", "-e", "open*"],
                     lambda e: bool(e.get("failed")) and matches(e, "open*")),
}  # fmt: skip


@pytest.mark.every(15)
@pytest.mark.parametrize("case", CASES, ids=lambda name: name.replace(" ", "-"))
def test_the_calls_are_those_that_one_would_pick_by_hand(
    case: str, recording: Path, everything: list[Event]
) -> None:
    words, chooses = CASES[case]
    wanted = calls([event for event in everything if event["type"] == "call" and chooses(event)])
    found = events(recording, *words)
    if case == "slower":  # a call that did not return has taken its time, too
        found = [event for event in found if event.get("ended") == "return"]
    assert 0 < len(wanted) < len(calls(everything))
    assert calls(found) == wanted


@pytest.mark.every(17)
@pytest.mark.parametrize("case", CASES, ids=lambda name: name.replace(" ", "-"))
def test_a_table_is_the_sum_of_the_chosen_calls(case: str, recording: Path) -> None:
    words, _ = CASES[case]
    counted: Counter[tuple[str, str, str]] = Counter()
    times: Counter[tuple[str, str, str]] = Counter()
    for event in events(recording, *words):
        if event["type"] == "call":
            counted[event["caller"], event["callee"], event["symbol"]] += 1
        # a further return (setjmp) counts as a call's own does; that of a child does not
        if event["type"] == "call" or event.get("call_pid") == event["pid"]:
            times[event["caller"], event["callee"], event["symbol"]] += event["duration_ns"] or 0
    done = run([*REPORT, "-c", "--json", *words, os.fspath(recording)])
    rows = json.loads(done.stdout)["rows"]
    assert {(row["caller"], row["callee"], row["symbol"]): row["calls"] for row in rows} == counted
    for row in rows:
        key = row["caller"], row["callee"], row["symbol"]
        assert (row["total_ns"] or 0) == pytest.approx(times[key], abs=row["calls"])


def test_processes_and_threads_are_told_apart(recording: Path, everything: list[Event]) -> None:
    pids = {event["pid"] for event in everything if event["type"] == "call"}
    assert len(pids) > 1
    for pid in pids:
        of = [event for event in everything if event.get("pid") == pid]
        assert calls(events(recording, "--pid", str(pid))) == calls(of)
        assert {event["pid"] for event in events(recording, "-p", str(pid))} == {pid}
        assert calls(events(recording, "--tid", str(pid))) == calls(of)  # its only thread
    assert calls(events(recording, *(f"--pid={pid}" for pid in pids))) == calls(everything)


def test_moments_are_those_of_the_clock_or_of_the_beginning(
    recording: Path, everything: list[Event]
) -> None:
    start = everything[0]["time_ns"]
    times = sorted(event["time_ns"] for event in everything if event["type"] == "call")
    middle, late = times[len(times) // 2], times[3 * len(times) // 4]
    wanted = calls([event for event in everything if middle <= event["time_ns"] <= late])
    assert 0 < len(wanted) < len(times)
    for since, until in (
        (f"{middle - start}ns", f"{late - start}ns"),
        (f"{middle // 10**9}.{middle % 10**9:09}", f"{late // 10**9}.{late % 10**9:09}"),
    ):
        assert calls(events(recording, "--since", since, "--until", until)) == wanted


def test_what_was_not_recorded_is_said(recording: Path) -> None:
    report = [*REPORT[:-1], os.fspath(recording)]
    done = run([*report, "-e", "mallok"])
    assert "-e mallok matches no symbol; did you mean malloc" in done.stderr
    assert "in the recording, which was made with --from all" in done.stderr
    assert " 0 of " in done.stderr


def test_ends_that_were_not_recorded_choose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "run.sosr"
    run([*SOSCOPE, "-q", "--entry-only", "--record", os.fspath(file), "--", "true"])
    for words in (["--slower", "1us"], ["--where", "ret == 0"]):
        done = run([*REPORT[:-1], *words, os.fspath(file)])
        assert "the recording has no ends of calls (--entry-only)" in done.stderr
        assert not [line for line in done.stdout.splitlines() if "(" in line and "+++" not in line]
    done = run([*REPORT[:-1], "--last", "1h", os.fspath(file)])
    assert "no ends of calls" not in done.stderr  # nobody has asked for them


def test_what_cannot_be_shown_is_said(tmp_path: Path) -> None:
    file = tmp_path / "run.sosr"
    run([*SOSCOPE, "-q", "--entry-only", "-s", "40", "--record", os.fspath(file), "--", "true"])
    for words, said in (
        (["-T"], "no ends of calls (--entry-only), so no durations"),
        (["-s", "41"], "strings were recorded with -s 40"),
    ):
        assert said in run([*REPORT[:-1], *words, os.fspath(file)]).stderr
    fine = run([*REPORT[:-1], "-s", "40", os.fspath(file)]).stderr
    assert "recorded with" not in fine
    assert "durations" not in fine


def test_rows_of_a_table_can_be_chosen_by_slot_alone(tmp_path: Path) -> None:
    file = tmp_path / "run.sosr"
    run([*SOSCOPE, "-q", "-c", "--from", "all", "--record", os.fspath(file), "--", "true"])
    rows = json.loads(run([*REPORT, "--json", os.fspath(file)]).stdout)["rows"]
    chosen = json.loads(run([*REPORT, "--json", "-e", "s*", os.fspath(file)]).stdout)["rows"]
    assert chosen == [row for row in rows if row["symbol"].startswith("s")]
    done = run([*REPORT, "-Z", os.fspath(file)])
    assert done.returncode == 2
    assert "the recording holds sums and no calls" in done.stderr


def joined(text: str) -> list[str]:
    """Return lines in the order of the calls' ends: a trace may meet a call before its end."""
    begun: list[str] = []
    lines = []
    for line in text.splitlines():
        if line.endswith(" <unfinished ...>"):
            begun.append(line.removesuffix(" <unfinished ...>"))
            continue
        name, _, rest = line.removeprefix("<... ").partition(" resumed> ")
        of_name = [each for each in begun if f"->{name}(" in each]
        if of_name and line.startswith("<... "):
            begun.remove(of_name[-1])
            lines.append(re.sub(r"\) +=", ") =", of_name[-1] + rest))
        else:  # a call that was met whole, or one that has returned again
            lines.append(re.sub(r"\) +=", ") =", line))
    return lines


def test_a_trace_chooses_as_its_recording_does(tmp_path: Path) -> None:
    file, text = tmp_path / "run.sosr", tmp_path / "text"
    words = ["-q", "-T", "--record", os.fspath(file), "-o", os.fspath(text), "--from", "all"]
    perl = ["--", need("perl"), "-e", 'open(F, "/nope/$_") for 1..20']
    for filters in (["-Z"], ["-z"], ["--slower", "2us"], ["--depth", "1"], ["-P", "/nope/3"]):
        done = run([*SOSCOPE, *words, *filters, *perl])
        assert done.returncode == 0, done.stderr
        shown = run([*REPORT, "-T", "--from", "all", *filters, os.fspath(file)]).stdout
        assert joined(shown) == joined(text.read_text())
        assert shown.count("\n") > 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-c", "--slower", "1ms"], "--slower: -c adds up in the program"),
        (["--count-only", "-Z"], "-Z: --count-only adds up in the program"),
        (["--record", "x.sosr", "--since", "1s"], "--since: a recording keeps all calls"),
        (["-c", "-P", "/x"], "-P: -c adds up in the program"),
        (["--where", "ret <"], "--where 'ret <': it ends too early"),
        (["--depth", "0"], "'0' levels show nothing"),
        (["--until", "25:00"], "'25:00' is no time of the day"),
        (["--until", "soon"], "'soon' is no moment"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_chosen_is_said_before_the_command_runs(
    words: list[str], said: str, tmp_path: Path
) -> None:
    done = run([*SOSCOPE, *words, "--", "touch", os.fspath(tmp_path / "ran")])
    assert done.returncode == 125
    assert said in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_table_of_chosen_calls_says_what_its_times_are(recording: Path) -> None:
    said = "times are the times of whole calls"
    assert said in run([*REPORT[:-1], "-c", "-Z", os.fspath(recording)]).stderr
    assert said not in run([*REPORT[:-1], "-c", "-e", "str*", os.fspath(recording)]).stderr


def test_a_name_that_no_call_has_is_said(recording: Path) -> None:
    for more in ([], ["-c"]):
        done = run([*REPORT[:-1], *more, "--where", "sise > 3", os.fspath(recording)])
        assert "--where: none of the calls has a 'sise'; did you mean size?" in done.stderr


def test_a_long_path_is_known_whole() -> None:
    path = f"/nope/{'x' * 200}"
    words = ["-P", path, "--", need("perl"), "-e", f'open(F, "{path}"); open(F, "{path}y")']
    done = run([*SOSCOPE, *words])
    lines = [line for line in done.stderr.splitlines() if "open" in line and "soscope" not in line]
    assert len(lines) == 1, done.stderr
    assert '"/nope/xxx' in lines[0]
    assert '"...' in lines[0]  # -s cuts what is shown
