# SPDX-License-Identifier: Apache-2.0
"""soscope prof --mode log: each call where it was in its thread's time, as its program says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from tests.support.processes import attached, reported
from tests.support.processes.run import soscope
from tests.support.targets.build import made_in
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

LIBRARY = """\
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#define NOT_SEEN __attribute__((no_instrument_function))
static __thread char said[1 << 16];
static __thread unsigned length;
NOT_SEEN static void say(char what, const char *name)
{
	if (length < sizeof said - 99)
		length += (unsigned)snprintf(said + length, sizeof said - length, "%c %s\\n", what, name);
}
NOT_SEEN void tell(FILE *to) { fwrite(said, 1, length, to); }
#define BODY(name, ...) { say('B', #name); __VA_ARGS__; say('E', #name); }
void leaf(void) BODY(leaf, )
void middle(int n) BODY(middle, for (int i = 0; i < n; i++) leaf())
void again(int n) BODY(again, if (n) again(n - 1); middle(n))
void work(int n) BODY(work, again(n); leaf())
static __thread jmp_buf out;
void leaves(void) { longjmp(out, 1); }
void left(void) BODY(left, if (!setjmp(out)) leaves(); leaf())
void many(long n) { while (n--) leaf(); }
void dies(int n) { if (n) dies(n - 1); else raise(SIGKILL); }
"""
PROGRAM = """\
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
void tell(FILE *to), work(int n), left(void), many(long n), dies(int n);
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static void *run(void *n)
{
	work((int)(long)n);
	left();
	pthread_mutex_lock(&one);
	printf("T %ld\\n", syscall(SYS_gettid));
	tell(stdout);
	pthread_mutex_unlock(&one);
	return n;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	if (argc > 2 && !strcmp(argv[1], "many")) { many(atol(argv[2])); return 4; }
	if (argc > 2 && !strcmp(argv[1], "dies")) { many(atol(argv[2])); dies(3); }
	if (argc > 2 && !strcmp(argv[1], "forks")) {
		int child = fork();
		many(child ? 10 : 20);
		if (child) { printf("%d %d\\n", getpid(), child); waitpid(child, 0, 0); }
		return 4;
	}
	pthread_create(&thread, 0, run, (void *)4L);
	run((void *)3L);
	pthread_join(thread, 0);
	return 4;
}
"""
HOOKS = {"cyg": ["-finstrument-functions"], "pg": ["-pg"], "fentry": ["-pg", "-mfentry"]}
SLICES = ("chrome", "perfetto", "speedscope", "firefox")


def built(folder: Path, compiler: str, hooks: str) -> Path:
    (folder / "lib.c").write_text(LIBRARY)
    (folder / "main.c").write_text(PROGRAM)
    flags = ["-O1", "-g", "-fno-inline", "-fno-optimize-sibling-calls", *HOOKS[hooks]]
    made_in(folder, compiler, *flags, "-fPIC", "-shared", "lib.c", "-o", "libslices.so")
    words = ["main.c", "-L.", "-lslices", "-pthread", "-Wl,-rpath,$ORIGIN", "-o", "program"]
    made_in(folder, "gcc", "-O1", *words)
    return folder / "program"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("log"), "gcc", "cyg")


def logged(program: Path, record: Path, *words: str) -> Any:
    options = ["-q", "--mode", "log", "-o", str(record)]
    return soscope("prof", "run", *options, "--", str(program), *words)


def report(record: Path, status: int = 0) -> dict[str, Any]:
    done = soscope("prof", "report", "--json", record)
    assert done.returncode == status, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def calls_of(said: dict[str, Any]) -> dict[str, int]:
    return {row["symbol"]: row["calls"] for row in said["functions"] if row["calls"] is not None}


def own_account(out: str) -> dict[int, list[str]]:
    """Return what each thread has said of itself, by its id: `B name`, `E name`."""
    account: dict[int, list[str]] = {}
    for line in out.splitlines():
        if line.startswith("T "):
            rows = account[int(line[2:])] = []
        else:
            rows.append(line)
    return account


def of_chrome(data: bytes) -> Iterator[tuple[int, str]]:
    opened: dict[int, list[str]] = {}
    last: dict[int, float] = {}
    for event in json.loads(data)["traceEvents"]:
        if event["ph"] not in "BE":
            continue
        tid = event["tid"]
        assert event["ts"] >= last.get(tid, 0)
        last[tid] = event["ts"]
        if event["ph"] == "B":
            opened.setdefault(tid, []).append(event["name"])
            yield tid, f"B {event['name']}"
        else:
            yield tid, f"E {opened[tid].pop()}"


def of_perfetto(data: bytes) -> Iterator[tuple[int, str]]:
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(data)
    names: dict[int, str] = {}
    tids: dict[int, int] = {}
    opened: dict[int, list[str]] = {}
    for packet in trace.packet:
        names.update({one.iid: one.name for one in packet.interned_data.event_names})
        if packet.HasField("track_descriptor") and packet.track_descriptor.HasField("thread"):
            tids[packet.track_descriptor.uuid] = packet.track_descriptor.thread.tid
        if packet.HasField("track_event"):
            event = packet.track_event
            tid = tids[event.track_uuid]
            if event.type == 1:
                opened.setdefault(tid, []).append(names[event.name_iid])
                yield tid, f"B {names[event.name_iid]}"
            else:
                yield tid, f"E {opened[tid].pop()}"


def of_speedscope(data: bytes) -> Iterator[tuple[int, str]]:
    said = json.loads(data)
    names = [frame["name"] for frame in said["shared"]["frames"]]
    for profile in said["profiles"]:
        tid = int(profile["name"].rpartition("/")[2])
        at = 0
        for event in profile["events"]:
            assert at <= event["at"] <= profile["endValue"]
            at = event["at"]
            yield tid, f"{'B' if event['type'] == 'O' else 'E'} {names[event['frame']]}"


def of_firefox(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield what begins: a sample stands there."""
    for thread in json.loads(data)["threads"]:
        strings, stacks = thread["stringArray"], thread["stackTable"]
        for stack in thread["samples"]["stack"]:
            function = thread["frameTable"]["func"][stacks["frame"][stack]]
            yield int(thread["tid"]), f"B {strings[thread['funcTable']['name'][function]]}"


READERS = {
    "chrome": of_chrome,
    "perfetto": of_perfetto,
    "speedscope": of_speedscope,
    "firefox": of_firefox,
}


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("compiler", "hooks"), [("gcc", "cyg"), ("clang", "cyg"), ("gcc", "pg"), ("clang", "fentry")]
)
def test_slices_are_what_threads_say_themselves(compiler: str, hooks: str, tmp_path: Path) -> None:
    program, record = built(tmp_path, compiler, hooks), tmp_path / "run.sosr"
    done = logged(program, record)
    assert done.returncode == 4, done.stderr
    truth = own_account(done.stdout)
    assert len(truth) == 2
    for name in SLICES if (compiler, hooks) == ("gcc", "cyg") else SLICES[:1]:
        out = tmp_path / f"out.{name}"
        assert soscope("export", "--format", name, "-o", out, record).returncode == 0
        found: dict[int, list[str]] = {}
        for tid, what in READERS[name](out.read_bytes()):
            # -pg tells of what keeps the account, too; and it does not tell of what longjmp leaves
            if what[2:] not in {"leaves", "say", "tell"}:
                found.setdefault(tid, []).append(what)
        if name == "firefox":
            begun = {
                tid: [row for row in rows if row.startswith("B")] for tid, rows in truth.items()
            }
            assert found == begun
        else:
            assert found == truth, name
    said = report(record)
    assert (said["mode"], said["state"], said["totals"]["dropped"]) == ("log", "complete", 0)
    assert calls_of(said)["leaves"] == 2


def test_sums_are_those_of_the_slices(program: Path, tmp_path: Path) -> None:
    """No hook's cost is taken off a slice: so the report's times are no longer than slices are."""
    record, out = tmp_path / "run.sosr", tmp_path / "out.json"
    assert logged(program, record).returncode == 4
    assert soscope("export", "--format", "chrome", "-o", out, record).returncode == 0
    events = json.loads(out.read_text())["traceEvents"]
    total: dict[str, float] = {}
    opened: dict[int, list[Any]] = {}
    for event in events:
        if event["ph"] == "B":
            opened.setdefault(event["tid"], []).append(event)
        elif event["ph"] == "E":
            begun = opened[event["tid"]].pop()
            outer = [each["name"] for each in opened[event["tid"]]]
            if begun["name"] not in outer:
                spent = (event["ts"] - begun["ts"]) * 1000
                total[begun["name"]] = total.get(begun["name"], 0) + spent
    rows = [row for row in report(record)["functions"] if row["calls"]]
    assert {row["symbol"] for row in rows} == set(total)
    for row in rows:
        assert 0 <= row["self_ns"] <= row["total_ns"] + 1
        assert row["total_ns"] <= total[row["symbol"]] * 1.01 + 1000, row


def test_what_finds_no_room_is_counted(program: Path, tmp_path: Path) -> None:
    record, times = tmp_path / "run.sosr", 1_000_000
    options = ("--when-full", "drop", "--buffer", "256KiB")
    words = ("many", str(times))
    done = soscope(
        "prof", "run", "--mode", "log", *options, "-o", record, "--", str(program), *words
    )
    assert done.returncode == 4
    said = report(record)
    assert calls_of(said)["leaf"] + said["totals"]["dropped"] in {times, times + 1}  # or `many`
    if said["totals"]["dropped"]:
        assert any("the ring was full" in note for note in said["notes"])
        assert "the ring was full" in done.stderr


def test_a_program_that_is_killed(program: Path, tmp_path: Path) -> None:
    record, out = tmp_path / "run.sosr", tmp_path / "out.json"
    done = logged(program, record, "dies", "5000")
    assert done.returncode == -9
    calls = calls_of(report(record))
    assert (calls["leaf"], calls["many"], calls["dies"]) == (5000, 1, 4)
    done = soscope("export", "--format", "chrome", "-o", out, record)
    assert "4 calls had not ended" in done.stderr
    found = [what for _, what in of_chrome(out.read_bytes())]
    assert found[-8:] == ["B dies"] * 4 + ["E dies"] * 4


def test_a_recording_that_ends_early_has_the_calls_so_far(program: Path, tmp_path: Path) -> None:
    record, cut = tmp_path / "run.sosr", tmp_path / "cut.sosr"
    assert logged(program, record, "many", "200000").returncode == 4
    whole = record.read_bytes()
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    said = report(cut, status=1)
    assert said["state"] == "cut"
    assert 0 < calls_of(said)["leaf"] < 200_000


def test_children_have_their_own(program: Path, tmp_path: Path) -> None:
    record, out = tmp_path / "run.sosr", tmp_path / "out.json"
    words = ["prof", "run", "-q", "-f", "--mode", "log", "-o", str(record), "--", str(program)]
    done = soscope(*words, "forks", "1")
    assert done.returncode == 4
    parent, child = map(int, done.stdout.split())
    assert soscope("export", "--format", "chrome", "-o", out, record).returncode == 0
    events = json.loads(out.read_text())["traceEvents"]
    calls = [event["pid"] for event in events if event.get("name") == "leaf"]
    assert (calls.count(parent), calls.count(child), len(calls)) == (10, 20, 30)


@pytest.mark.long
def test_a_running_process(tmp_path: Path) -> None:
    command = reported.program("reported", "cyg", "gcc", "-O0")
    record = tmp_path / "run.sosr"
    with subprocess.Popen([*command, "0", "2"], stdin=subprocess.PIPE) as running:
        reported.until_loaded(running.pid, str(Path(command[0]).with_name("libreported.so")))
        words = ["prof", "attach", "--mode", "log", "-o", str(record), "-p", str(running.pid)]
        observer = subprocess.Popen(
            [sys.executable, "-m", "soscope", *words], stderr=subprocess.PIPE, text=True
        )
        attached.assert_it_profiles(observer, running.pid)
        until(has_run(running.pid), "it calls", running=observer)
        observer.send_signal(signal.SIGINT)
        _, notes = observer.communicate(timeout=limit())
        running.communicate(b"\n", timeout=limit())
    assert observer.returncode == 0, notes
    assert running.returncode == 3  # all results were right
    assert calls_of(report(record))["fib"] > 0


@pytest.mark.parametrize("words", [["--when-full", "drop"], ["--buffer", "1MiB"]])
def test_what_is_about_single_calls_alone(words: list[str]) -> None:
    done = soscope("prof", "run", "--mode", "time", *words, "--", "true")
    assert done.returncode == 125
    assert f"{words[0]} is about single calls" in done.stderr
