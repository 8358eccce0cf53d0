# SPDX-License-Identifier: Apache-2.0
"""Native blocks of programs that run already: what is made since soscope came, and what stays.

The program keeps an account of its own; what it had before is no part of it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any

import pytest

from tests.support.machines.pythons import DISTRIBUTION
from tests.support.processes.attached import differences, running, snapshot, wait_for_hooks
from tests.support.processes.run import run
from tests.support.schemas.checked import wrong_members
from tests.support.schemas.mem import REPORT
from tests.support.targets import memory
from tests.support.targets.accounts import SOSCOPE, assert_same, built, kept, rows_of
from tests.support.targets.build import made_in
from tests.support.time.patience import limit, until

MODES = (["--mode", "exact"], ["--aggregate"], ["--mode", "count"])

KEEPER = """
enum { OLD = 40, NEW = 300, THREADS = 8 };
static void *volatile old[OLD], *volatile kept[THREADS + 1][NEW];
static void (*volatile give)(void *) = free; /* programs keep its address */
static volatile int over;
static void *churn(void *unused)
{
    while (!over) {
        void *p = malloc(100), *q = calloc(3, 30);
        p = realloc(p, 3000);
        free(p);
        give(q);
        usleep(500);
    }
    return NULL;
}
static void *work(void *number)
{
    void *volatile *mine = kept[(long)number];
    for (long i = 0; i < NEW; i++) {
        mine[i] = i % 3 ? KEEP(malloc, i * 3, malloc(i * 3)) : malloc(i);
        give(malloc(17));
    }
    for (long i = 0; i < NEW; i += 3)
        give(mine[i]);
    return NULL;
}
int main(void)
{
    pthread_t churns, threads[THREADS];
    char line[100];
    for (int i = 0; i < OLD; i++)
        old[i] = malloc(50);
    pthread_create(&churns, NULL, churn, NULL);
    write(1, "ready\\n", 6);
    if (read(0, line, 100) <= 0)
        return 2;
    for (int i = 0; i < OLD / 2; i++)
        give(old[i]);
    for (int i = OLD / 2; i < OLD; i++)
        old[i] = KEEP(realloc, 200000, realloc(old[i], 200000));
    kept[THREADS][0] = KEEP(mmap, 12288,
        mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (realloc(old[0] = KEEP(malloc, 60, malloc(60)), SIZE_MAX / 2))
        return 4;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    over = 1;
    pthread_join(churns, NULL);
    write(1, "done\\n", 5);
    return read(0, line, 100) > 0 ? 0 : 3;
}
"""


@contextmanager
def attached(pid: int, file: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    words = [*SOSCOPE, "mem", "attach", "-p", str(pid), "--blocks", "-o", str(file), *options]
    before = snapshot(pid)
    watcher = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: differences(before, pid), "it is hooked", running=watcher)
        wait_for_hooks(watcher)
        yield watcher
    finally:
        watcher.kill()
        watcher.communicate()


def shown(*words: str, status: int = 0) -> dict[str, Any]:
    done = run([*SOSCOPE, "mem", *words], timeout=limit())
    assert done.returncode == status, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert not wrong_members(report, REPORT)
    return report


def the_rest(process: subprocess.Popen[str]) -> str:
    """Read what a program says until it is done."""
    assert process.stdout is not None
    lines = []
    while (line := process.stdout.readline()) != "done\n":
        assert line
        lines.append(line)
    return "".join(lines)


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.every(3)
@pytest.mark.parametrize("options", MODES)
def test_what_is_made_since_then_is_told_from_what_was_there(
    tmp_path: Path, options: list[str]
) -> None:
    file = tmp_path / "run.sosr"
    with running([built("keeper.c", KEEPER)]) as process:
        before = snapshot(process.pid)
        with attached(process.pid, file, *options) as watcher:
            tell(process)
            output = the_rest(process)
            watcher.send_signal(signal.SIGINT)
            _, notes = watcher.communicate(timeout=limit())
        assert watcher.returncode == 0, notes
        assert "lost" not in notes
        assert differences(before, process.pid) == []
        tell(process)
        assert process.wait(limit()) == 0
    report = shown("report", "--json", str(file))
    assert (report["state"], report["exit"]) == ("complete", {"status": None, "signal": None})
    assert "keeper" in report["command"][0]
    if "count" in options:
        found: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for row in report["native"]:
            found[row["api"]] += row["count"]
            sizes[row["api"]] += row["bytes"]
            assert row["frames"] == []
        truth: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for (api, _, size), count in kept(output).items():
            truth[api] += count
            total[api] += count * size
        found.pop("calloc", None)  # pthread_create's
        assert {api: found[api] for api in truth} == dict(truth)
        assert {api: sizes[api] for api in truth} == dict(total)
    else:
        assert_same(report, output, "keeper.c")
    strange = [note for note in report["notes"] if "before soscope came" in note]
    assert int(strange[0].split()[0]) >= 40  # 20 freed, 20 moved
    if "--aggregate" in options:
        assert file.stat().st_size < 1 << 20


def test_leaks_are_those_that_grow_old() -> None:
    program = built(
        "leaking.c",
        """
        static void *volatile leaked;
        int main(void)
        {
            write(1, "ready\\n", 6);
            for (;;) {
                leaked = malloc(77); /* leak */
                for (int i = 0; i < 20; i++)
                    free(malloc(i + 1));
                usleep(2000);
            }
        }""",
    )
    with running([program]) as process:
        before = snapshot(process.pid)
        words = ("leaks", "-p", str(process.pid), "--older", "300ms", "--duration", "1s", "--json")

        def old_and_young() -> dict[str, Any] | None:
            """Return what is told of a time in which some blocks grew old, and others did not."""
            report = shown(*words)
            old = sum(row["count"] for row in rows_of(report, "leaking.c"))
            return report if 0 < old < report["totals"]["native"]["live"] else None

        report = until(old_and_young, "some blocks grow old")
        assert differences(before, process.pid) == []
        assert process.poll() is None
    (row,) = rows_of(report, "leaking.c")
    assert row["api"] == "malloc"
    assert row["thread"] == process.pid
    assert row["bytes"] == 77 * row["count"]
    assert report["state"] == "complete"


def stopped_behind_40_blocks(verb: str, *options: str) -> tuple[str, str]:
    """Let a visited program make 40 blocks of 77 bytes, stop the visit, return what was said."""
    program = built(
        "young.c",
        """
        static void *volatile leaked;
        int main(void)
        {
            char line[9];
            write(1, "ready\\n", 6);
            read(0, line, sizeof line);
            for (int i = 0; i < 40; i++)
                leaked = malloc(77);
            write(1, "done\\n", 5);
            return read(0, line, sizeof line) < 0;
        }""",
    )
    with running([program]) as process:
        words = [*SOSCOPE, "mem", verb, "-p", str(process.pid), *options]
        before = snapshot(process.pid)
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watcher:
            until(lambda: differences(before, process.pid), "it is hooked", running=watcher)
            wait_for_hooks(watcher)
            tell(process)
            the_rest(process)
            watcher.send_signal(signal.SIGINT)
            said, errors = watcher.communicate(timeout=limit())
        assert watcher.returncode == 0, errors
        assert differences(before, process.pid) == []
    return said, errors


@pytest.mark.parametrize("form", ["text", "json"])
def test_leaks_that_are_stopped_early_say_how_many_are_young(form: str) -> None:
    said, _ = stopped_behind_40_blocks("leaks", "--older", "50s", "--format", form)
    if form == "text":
        assert "40 of 3.0 KiB are younger than 50 s (--older)" in said.splitlines()
        return
    report = json.loads(said)
    assert not wrong_members(report, REPORT)
    assert report["native"] == []
    assert report["totals"]["younger"] == {"than_ns": 50 * 10**9, "count": 40, "bytes": 40 * 77}


def leaks(pid: int) -> dict[str, Any]:
    return shown("leaks", "-p", str(pid), "--older", "50ms", "--duration", "200ms", "--json")


def test_an_image_that_went_between_two_visits_is_not_looked_at(tmp_path: Path) -> None:
    library = tmp_path / "libgone.so"
    source = tmp_path / "gone.c"
    source.write_text("char much[1 << 20] = {1};")
    made_in(tmp_path, "gcc", "-shared", "-fPIC", "-o", library, source)
    program = built(
        "closing.c",
        """
        #include <dlfcn.h>
        int main(int argc, char **argv)
        {
            void *library = dlopen(argv[1], RTLD_NOW);
            char line[100];
            write(1, "ready\\n", 6);
            read(0, line, 100);
            dlclose(library);
            write(1, "done\\n", 5);
            return !read(0, line, 100);
        }""",
    )
    with running([program, str(library)]) as process:
        assert leaks(process.pid)["state"] == "complete"
        assert "libgone" in Path(f"/proc/{process.pid}/maps").read_text()
        tell(process)
        the_rest(process)
        assert "libgone" not in Path(f"/proc/{process.pid}/maps").read_text()
        assert leaks(process.pid)["state"] == "complete"


def test_the_type_of_code_is_what_it_was() -> None:
    program = """
import ctypes, sys

def end():  # what ends a code object
    return ctypes.c_size_t.from_address(id(type(end.__code__)) + 48).value

first = end()
print("ready", flush=True)
meanwhile = 0
while not meanwhile or end() != first:
    meanwhile |= end() != first
    bytearray(9999)
print("seen", flush=True)
sys.stdin.readline()
print(len([exec("pass") for _ in range(9)]))
"""
    with running([DISTRIBUTION, "-c", program]) as process:
        stdout = process.stdout
        assert stdout is not None
        # how it sees the type change, and change back, depends on when it has a processor
        until(lambda: leaks(process.pid) and select([stdout], [], [], 0)[0], "it sees both")
        output, _ = process.communicate("go\n", limit())
        assert (process.returncode, output) == (0, "seen\n9\n")


@pytest.mark.every(3)
@pytest.mark.parametrize("options", MODES)
def test_a_kill_of_soscope_leaves_what_was_known(tmp_path: Path, options: list[str]) -> None:
    file = tmp_path / "run.sosr"
    with running([built("keeper.c", KEEPER)]) as process:
        before = snapshot(process.pid)
        with attached(process.pid, file, *options) as watcher:
            tell(process)
            the_rest(process)
            until(lambda: _knows(file), "the recording knows", running=watcher)
            watcher.kill()
            watcher.wait()
        done = run([*SOSCOPE, "detach", "-p", str(process.pid)], timeout=limit())
        assert done.returncode == 0, done.stderr
        assert differences(before, process.pid) == []
        tell(process)
        assert process.wait(limit()) == 0
    report = shown("report", "--json", str(file), status=1)
    assert report["state"] == "cut"
    assert report["totals"]["native"]["live"] >= 1600


def _knows(file: Path) -> bool:
    report = json.loads(run([*SOSCOPE, "mem", "report", "--json", str(file)]).stdout or "{}")
    native = report.get("totals", {}).get("native") or {}
    return bool(native.get("live", 0) >= 1600)


def test_another_allocator_is_none_of_our_business(tmp_path: Path) -> None:
    file = tmp_path / "run.sosr"
    environ = {**os.environ, **memory.jemalloc()}
    words = ["env", *(f"{name}={environ[name]}" for name in memory.jemalloc())]
    with running([*words, built("keeper.c", KEEPER)]) as process:
        with attached(process.pid, file) as watcher:
            tell(process)
            output = the_rest(process)
            watcher.send_signal(signal.SIGINT)
            assert watcher.wait(limit()) == 0
        tell(process)
        assert process.wait(limit()) == 0
    assert_same(shown("report", "--json", str(file)), output, "keeper.c")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["attach", "-p", "1", "--blocks"], "-o REC is missing"),
        (["attach", "-p", "1", "-o", "x"], "are for --blocks"),
        (["leaks"], "neither a recording nor -p PID"),
        (["leaks", "-p", "1", "x.sosr"], "cannot be combined"),
        (["leaks", "--duration", "3s", "x.sosr"], "--duration is for -p PID"),
        (["leaks", "-p", "1", "--older", "3s", "--duration", "2s"], "longer than --older"),
        (["snapshot", "-p", "1", "--duration", "2s"], "--duration is for --blocks"),
        (["snapshot", "-p", "1", "--blocks", "--gc"], "about objects"),
    ],
)
def test_what_does_not_go_together_is_said(words: list[str], said: str) -> None:
    done = run([*SOSCOPE, "mem", *words])
    assert done.returncode == 2
    assert said in done.stderr


def test_a_snapshot_of_a_native_program_is_of_its_blocks() -> None:
    said, errors = stopped_behind_40_blocks("snapshot", "--json")
    assert "has no Python or Ruby: its new blocks of 10s are shown" in errors
    report = json.loads(said)
    assert not wrong_members(report, REPORT)
    (row,) = rows_of(report, "young.c")
    assert (row["count"], row["bytes"]) == (40, 40 * 77)


def test_a_snapshot_of_blocks_is_of_its_time() -> None:
    with running([built("keeper.c", KEEPER)]) as process:
        words = ("snapshot", "-p", str(process.pid), "--blocks", "--duration", "1s", "--json")

        def busy() -> dict[str, Any] | None:
            """Return what is told of a time in which the program made blocks."""
            report = shown(*words)
            return report if report["totals"]["native"]["allocations"] > 10 else None

        report = until(busy, "the program makes blocks")
        assert (report["state"], report["native_mode"]) == ("complete", "exact")
        # what comes and goes is not there, but for what was there at this moment
        assert report["totals"]["native"]["live"] <= 3
        assert report["totals"]["rss"] is not None
        assert process.poll() is None
        tell(process)
        the_rest(process)
    assert re.fullmatch(r".*/keeper", report["command"][0])


GIVEN_BEFORE = """
#include <dlfcn.h>
static void *volatile kept[20];
int main(void)
{
    void *(*before)(size_t) = dlsym(RTLD_DEFAULT, "malloc"), *(*after)(size_t) = NULL;
    char line[100];
    write(1, "ready\\n", 6);
    while (read(0, line, 100) > 0) {
        for (int i = 0; i < 10; i++)
            kept[i] = before(100);
        if (line[0] == 'a')
            after = dlsym(RTLD_DEFAULT, "calloc");
        write(1, "done\\n", 5);
    }
    return !after;
}
"""


@pytest.mark.parametrize("asks_again", [False, True])
def test_pointers_that_dlsym_gave_are_named(tmp_path: Path, asks_again: bool) -> None:
    file = tmp_path / "attached.sosr"
    with running([built("before.c", GIVEN_BEFORE, "-ldl")]) as process:
        with attached(process.pid, file) as watcher:
            assert process.stdin is not None
            process.stdin.write("again\n" if asks_again else "go\n")
            process.stdin.flush()
            assert the_rest(process) == ""
            watcher.send_signal(signal.SIGINT)
            watcher.communicate(timeout=limit())
        assert process.communicate(timeout=limit())[0] == ""
        assert process.returncode == int(not asks_again)
    report = shown("report", "--json", str(file), status=int(asks_again))
    assert report["native"] == []  # it has made ten blocks
    before = (
        "not seen: calls through pointers that dlsym gave before soscope was attached, to before"
    )
    after = "not seen: calls of calloc through pointers that dlsym gave to before"
    said = [note for note in report["notes"] if note.startswith("not seen: ")]
    assert sorted(said, key=len) == ([after, before] if asks_again else [before])
    assert report["state"] == ("partial" if asks_again else "complete")
