# SPDX-License-Identifier: Apache-2.0
"""`soscope mem run --blocks --mode sample`: estimates, and that no end of a block is missed.

Where one byte in one is chosen, each block is: then the report is that of `--mode exact`. Else a
test allows five standard deviations, which chance exceeds once in two million runs.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_mem_blocks import FORKS, PLUS, RACE, SIGNALS, TEMPORARY
from tests.support.processes import launching
from tests.support.processes.run import run
from tests.support.targets.accounts import (
    ENDINGS,
    EVERY,
    PRELUDE,
    SOSCOPE,
    assert_same,
    built,
    kept,
    recorded,
    reported,
    rows_of,
)

_SURE = 5 / 1.96  # of half widths of the 95 % interval
ALL = ("--mode", "sample=1")


def line_of(text: str, mark: str) -> int:
    """Return the line of a program behind PRELUDE that has a mark."""
    return next(at for at, row in enumerate((PRELUDE + text).splitlines(), 1) if mark in row)


@pytest.mark.parametrize(
    ("name", "text", "flags"),
    [("every.c", EVERY, ()), ("plus.cc", PLUS, ("-std=c++17", "-lstdc++"))],
)
def test_when_each_byte_is_chosen_each_block_is(
    name: str, text: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    report, output = recorded(tmp_path, [built(name, text, *flags)], *ALL)
    assert_same(report, output, name)
    assert (report["native_mode"], report["sample_bytes"]) == ("sampled", 1)
    assert {row["error_bytes"] for row in report["native"]} == {0}
    totals = report["totals"]["native"]
    assert totals["live"] == sum(row["count"] for row in report["native"])
    assert totals["allocations"] == totals["frees"] + totals["live"]


@pytest.mark.every(2)
@pytest.mark.parametrize("how", ["exit", "_exit", "kill", "segv", "xec"])
def test_what_is_alive_at_each_end_is_there(how: str, tmp_path: Path) -> None:
    status = {"_exit": 3, "kill": -signal.SIGKILL, "segv": -signal.SIGSEGV}.get(how, 0)
    command = [built("endings.c", ENDINGS), how]
    report, output = recorded(tmp_path, command, *ALL, status=status)
    assert_same(report, output, "endings.c")
    assert len(kept(output)) == (201 if how == "exit" else 200)
    assert report["state"] == "complete"


def test_children_are_followed_or_change_nothing(tmp_path: Path) -> None:
    command = [built("forks.c", FORKS)]
    report, output = recorded(tmp_path, command, *ALL)
    assert_same(report, output, "forks.c")
    assert len(report["processes"]) == 1
    followed, output = recorded(tmp_path, command, "-f", *ALL)
    pids = [process["pid"] for process in followed["processes"]]
    rows = {(row["pid"], row["frames"][0]["line"]): row for row in rows_of(followed, "forks.c")}
    assert rows.pop((pids[1], line_of(FORKS, "/* child */")))["bytes"] == 5000
    assert {pid for pid, _ in rows} == {pids[0]}


def test_jumps_out_of_handlers_lose_nothing(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("jumps.c", SIGNALS)], *ALL)
    assert sum(reported(report, "jumps.c").values()) == 15000


def test_temporary_blocks_are_freed_before_the_next_one(tmp_path: Path) -> None:
    recorded(tmp_path, [built("short.c", TEMPORARY)], *ALL)
    shown = run([*SOSCOPE, "mem", "report", "--temporary", "--json", str(tmp_path / "run.sosr")])
    short = [at for at, row in enumerate((PRELUDE + TEMPORARY).splitlines(), 1) if "short" in row]
    rows = reported(json.loads(shown.stdout), "short.c")
    assert {line: rows["malloc", line] for line in short} == dict.fromkeys(short, 300)
    assert rows["malloc", line_of(TEMPORARY, "/* long */")] == 0


SEALED = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
static void *volatile kept[500];
int main(void)
{
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &all};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program))
        return 2;
    for (int i = 0; i < 500; i++) {
        kept[i] = malloc(100 + i % 7); /* keep */
        free(malloc(30));
        if (i % 5 == 0) {
            free(kept[i]);
            kept[i] = NULL;
        } else if (i % 5 == 1)
            kept[i] = realloc(kept[i], 3000); /* again */
    }
    return 0;
}
"""


def test_without_system_calls_no_end_is_missed(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("sealed.c", SEALED)], *ALL)
    assert reported(report, "sealed.c") == {
        ("malloc", line_of(SEALED, "/* keep */")): 300,
        ("realloc", line_of(SEALED, "/* again */")): 100,
    }


EXCHANGE = """
static void *volatile shared[64];
static void *work(void *first)
{
    unsigned seed = (unsigned)(long)first + 1;
    for (int turn = 0; turn < 200000 / THREADS; turn++) {
        seed = seed * 1103515245 + 12345;
        unsigned at = seed >> 16 & 63, size = 16 + (seed >> 8) % 400;
        void *p = __atomic_exchange_n(&shared[at], NULL, __ATOMIC_ACQ_REL);
        if (turn % 3)
            p = realloc(p, size);
        else {
            free(p);
            p = turn % 2 ? calloc(1, size) : malloc(size);
        }
        free(__atomic_exchange_n(&shared[at], p, __ATOMIC_ACQ_REL));
    }
    return NULL;
}
int main(void)
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i))
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 64; i++)
        free(shared[i]);
    return 0;
}
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("threads", [2, 100])
@pytest.mark.parametrize("size", [1, 1000])
def test_what_other_threads_free_is_not_alive(threads: int, size: int, tmp_path: Path) -> None:
    name = f"exchange{threads}.c"
    program = built(name, EXCHANGE, f"-DTHREADS={threads}")
    report, _ = recorded(tmp_path, [program], "--mode", f"sample={size}")
    assert rows_of(report, name) == []
    assert report["totals"]["dropped"] == 0
    made = report["totals"]["native"]["allocations"]
    truth = 200000 // threads * threads
    assert abs(made - truth) < (truth / 10 if size > 1 else 3 * threads)


# threads that are known before they make a block: by a call that the agent sees for other reasons
KNOWN = """
#include <sys/prctl.h>
static void *make(void)
{
    for (int i = 0; i < 20000; i++)
        *(char *volatile *)malloc(1000) = NULL;
    return NULL;
}
static void *detached(void *done)
{
    pthread_detach(pthread_self());
    make();
    while (write(*(int *)done, "", 1) != 1)
        ;
    return NULL;
}
static void *named(void *unused)
{
    prctl(PR_SET_NAME, "named");
    return make();
}
int main(void)
{
    pthread_t thread;
    int done[2];
    char byte;
    if (pipe(done) || pthread_create(&thread, NULL, detached, &done[1]) ||
        read(done[0], &byte, 1) != 1 || pthread_create(&thread, NULL, named, NULL))
        return 2;
    return pthread_join(thread, NULL);
}
"""


def test_a_thread_is_sampled_whatever_it_calls_first(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("known.c", KNOWN)], "--mode", "sample=4k")
    found = Counter[str]()
    error = Counter[str]()
    for row in rows_of(report, "known.c"):
        caller = next(f["symbol"] for f in row["frames"] if f["symbol"] != "make")
        found[caller] += row["bytes"]
        error[caller] += row["error_bytes"]
    assert found.keys() == {"detached", "named"}
    for caller, size in found.items():
        assert abs(size - 20000 * 1000) < _SURE * error[caller]


def test_a_race_changes_no_estimate(tmp_path: Path) -> None:
    line = line_of(RACE, "/* keep */")
    truth = sum(16 + i % 300 for i in range(24000))
    report, _ = recorded(tmp_path, [built("race.c", RACE)], "--mode", "sample=4k")
    rows = [row for row in rows_of(report, "race.c") if row["api"] == "malloc"]
    assert {row["frames"][0]["line"] for row in rows} == {line}
    size, error = sum(row["bytes"] for row in rows), sum(row["error_bytes"] for row in rows)
    assert abs(size - truth) < _SURE * error
    assert {row["frames"][0]["line"] for row in rows_of(report, "race.c")} == {line}


# How a line makes a block of n bytes, p being where its address goes
_WAYS = {
    "malloc": "p = malloc(n);",
    "calloc": "p = calloc(n / 10, 10);",
    "realloc": "p = realloc(malloc(40), n);",
    "operator new": "p = ::operator new(n);",
    "operator new[]": "p = new char[n];",
    "posix_memalign": "if (posix_memalign(&p, 64, n)) return;",
}
_LINES, _BLOCKS = 48, 1500


def estimated() -> tuple[str, dict[int, tuple[str, int]]]:
    """Return a program with many lines that make blocks, and by line the function and bytes."""
    lines = ["static void *volatile kept;", "static void every(void)", "{", "void *p;"]
    truth: dict[int, tuple[str, int]] = {}
    first = len(PRELUDE.splitlines()) + len(lines) + 1
    for number in range(_LINES):
        api = list(_WAYS)[number % len(_WAYS)]
        size = 50 + 10 * number
        lines.append(
            f"for (int i = 0; i < {_BLOCKS}; i++) {{ size_t n = {size}; {_WAYS[api]} kept = p; }}"
        )
        truth[first + number] = api, size * _BLOCKS
    lines += [
        "}",
        "static void *work(void *unused) {",
        "for (int i = 0; i < 50000; i++)",
        "{ free(malloc(i % 500)); delete (char *)(kept = new char); }",
        "every(); return NULL; }",
        "int main() { pthread_t thread; pthread_create(&thread, NULL, work, NULL);",
        "pthread_join(thread, NULL); return 0; }",
        "",
    ]
    return "\n".join(lines), truth


def within(row: dict[str, Any], truth: int) -> bool:
    size, error = int(row["bytes"]), int(row["error_bytes"])
    return abs(size - truth) <= error


def test_the_truth_lies_in_the_intervals(tmp_path: Path) -> None:
    text, truth = estimated()
    program = built("estimated.cc", text, "-lstdc++")
    report, _ = recorded(tmp_path, [program], "--mode", "sample=4KiB")
    assert (report["native_mode"], report["sample_bytes"]) == ("sampled", 4096)
    rows = {row["frames"][0]["line"]: row for row in rows_of(report, "estimated.cc")}
    # with 5 samples or so of 20 some line may have none
    assert {line: row["api"] for line, row in rows.items()} == {
        line: api for line, (api, _) in truth.items()
    }
    right = [line for line, (_, size) in truth.items() if within(rows[line], size)]
    assert len(right) >= 0.75 * _LINES  # 0.94 of them, give or take 0.035
    for api in _WAYS:
        mine = [line for line, (name, _) in truth.items() if name == api]
        size = sum(rows[line]["bytes"] for line in mine)
        error = sum(rows[line]["error_bytes"] ** 2 for line in mine) ** 0.5
        assert abs(size - sum(truth[line][1] for line in mine)) <= _SURE * error, api
    totals = report["totals"]["native"]
    made = _LINES * _BLOCKS + _LINES // len(_WAYS) * _BLOCKS + 100_000
    assert abs(totals["allocations"] - made) < made / 4
    shown = run([*SOSCOPE, "mem", "report", str(tmp_path / "run.sosr")])
    assert " ± " in shown.stdout.splitlines()[0]
    assert "one in 4,096 bytes" in shown.stdout


OWN = """
#include <sys/mman.h>
#include <stddef.h>
#include <string.h>
static __thread char *room;
static __thread size_t left;
void *malloc(size_t size)
{
    size = (size + 31) & ~(size_t)15;
    if (left < size) {
        left = size + 100000;
        room = mmap(NULL, left, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    char *block = room;
    room += size;
    left -= size;
    *(size_t *)block = size - 16;
    return block + 16;
}
void free(void *block) {}
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void *realloc(void *block, size_t size)
{
    void *other = malloc(size);
    if (block) {
        size_t had = ((size_t *)block)[-2];
        memcpy(other, block, had < size ? had : size);
    }
    return other;
}
"""

USES_OWN = """
int main(void)
{
    for (int i = 0; i < 5000; i++)
        free(malloc(1000));
    return mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", ["exact", "sample=1", "sample"])
def test_what_an_allocator_maps_for_itself_is_not_told(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("-shared", "-fPIC", "-fno-builtin", "-O1")
    library = launching.compiled("own.c", *flags, text=OWN)
    program = built("usesown.c", USES_OWN)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    done = run(
        [*SOSCOPE, "mem", "run", "--blocks", "--mode", mode, "-o", "r", "--", program], cwd=tmp_path
    )
    monkeypatch.delenv("LD_PRELOAD")
    assert done.returncode == 0, done.stderr
    report = json.loads(run([*SOSCOPE, "mem", "report", "--json", "r"], cwd=tmp_path).stdout)
    assert [row["bytes"] for row in report["native"] if row["api"] == "mmap"] == [8192]
