# SPDX-License-Identifier: Apache-2.0
"""`--aggregate` and `--mode count`: sums in the place of events, with nothing wrong in them."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.run import run
from tests.support.targets.accounts import (
    ENDINGS,
    EVERY,
    SOSCOPE,
    assert_same,
    built,
    kept,
    recorded,
)

STATUS = {"_": 3, "a": -6, "k": -9, "s": -11, "x": 0, "0": 0}


def by_api(rows: Any) -> Counter[tuple[str, int]]:
    """Return how many blocks there are of each function, and bytes (-1)."""
    found: Counter[tuple[str, int]] = Counter()
    for row in rows:
        found[row["api"], row.get("pid", 0)] += row["count"]
        found[row["api"], -1] += row["bytes"]
    return found


def truth_of(output: str) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for (api, _, size), count in kept(output).items():
        found[api, 0] += count
        found[api, -1] += count * size
    return found


@pytest.mark.every(6)
@pytest.mark.parametrize("how", sorted(STATUS))
def test_sums_survive_every_end(tmp_path: Path, how: str) -> None:
    command = [built("endings.c", ENDINGS), how]
    report, output = recorded(tmp_path, command, "--aggregate", status=STATUS[how])
    assert_same(report, output, "endings.c")
    assert report["state"] == "complete"
    report, output = recorded(tmp_path, command, "--mode", "count", status=STATUS[how])
    assert by_api(report["native"]) == truth_of(output)
    assert (report["state"], report["native_mode"]) == ("complete", "count")
    assert report["totals"]["native"]["peak"] is None


def test_every_function_is_counted(tmp_path: Path) -> None:
    report, output = recorded(tmp_path, [built("every.c", EVERY)], "--mode", "count")
    assert by_api(report["native"]) == truth_of(output)
    for row in report["native"]:
        least, most = row["sizes"]
        assert least * row["count"] <= row["bytes"] <= most * row["count"]
        assert row["frames"] == []
    exact, _ = recorded(tmp_path, [built("every.c", EVERY)])
    for name in ("live", "live_bytes", "allocations", "frees", "allocated_bytes"):
        assert report["totals"]["native"][name] == exact["totals"]["native"][name]


FORKS = """
enum { THREADS = 40, EACH = 50 };
static void *volatile kept[THREADS][EACH], *volatile mine[90];
static void *work(void *number)
{
    for (int i = 0; i < EACH; i++)
        kept[(long)number][i] = malloc(i + 10);
    for (int i = 0; i < 2000; i++)
        free(malloc(i % 5000));
    return NULL;
}
int main(void)
{
    pthread_t threads[THREADS];
    int status;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int child = 1; child < 4; child++)
        if (!fork()) {
            for (int i = 0; i < 20; i++)
                free(kept[child][i]); /* its parent's */
            for (int i = 0; i < 10 * child; i++)
                mine[i] = malloc(33);
            for (int i = 0; i < 5; i++)
                free(mine[i]);
            _exit(0);
        }
    while (wait(&status) > 0)
        ;
    return 0;
}
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("options", [["--mode", "count"], ["--aggregate"]])
def test_children_count_for_themselves(tmp_path: Path, options: list[str]) -> None:
    command = [built("forks.c", FORKS)]
    report, _ = recorded(tmp_path, command, "-f", *options)
    live: Counter[int] = Counter()
    for row in report["native"]:
        if row["api"] == "malloc":
            live[row["pid"]] += row["count"]
    assert sorted(live.values()) == [5, 15, 25, 2000]
    assert live[report["pid"]] == 2000
    alone, _ = recorded(tmp_path, command, *options)
    assert sum(row["count"] for row in alone["native"] if row["api"] == "malloc") == 2000


MANY = """
static void *volatile kept[64];
int main(int argc, char **argv)
{
    for (int i = 0; i < atoi(argv[1]); i++) {
        free(kept[i % 64]);
        kept[i % 64] = malloc(i % 900);
    }
    return 0;
}
"""


def test_a_recording_of_sums_does_not_grow(tmp_path: Path) -> None:
    program = built("many.c", MANY)
    sizes = []
    for count in ("20000", "400000"):
        report, _ = recorded(tmp_path, [program, count], "--aggregate")
        assert report["totals"]["native"]["allocations"] >= int(count)
        assert report["totals"]["native"]["live"] == 64
        sizes.append((tmp_path / "run.sosr").stat().st_size)
    assert sizes[1] < sizes[0] + 100_000


def test_the_peak_of_sums_is_exact(tmp_path: Path) -> None:
    program = built(
        "peaks.c",
        """
        static void *volatile kept[100];
        static void fill(int from, int to) /* the line of all */
        { for (int i = from; i < to; i++) kept[i] = malloc(1000); }
        static void drop(int from, int to)
        { for (int i = from; i < to; i++) free(kept[i]); }
        int main(void)
        {
            fill(0, 60); drop(20, 60); fill(20, 80); drop(0, 80); fill(0, 30);
            free(malloc(70000));
            return 0;
        }""",
    )
    exact, _ = recorded(tmp_path, [program])
    report, _ = recorded(tmp_path, [program], "--aggregate")
    for name, value in exact["totals"]["native"].items():
        if name != "peak_time_ns":
            assert report["totals"]["native"][name] == value
    assert report["totals"]["native"]["peak_bytes"] >= 100_000
    done = run([*SOSCOPE, "mem", "report", "--peak", "--json", str(tmp_path / "run.sosr")])
    rows = [row for row in json.loads(done.stdout)["native"] if row["bytes"] >= 30_000]
    assert sorted(row["count"] for row in rows) == [1, 30]


def test_rows_are_added_up(tmp_path: Path) -> None:
    recorded(tmp_path, [built("forks.c", FORKS)])
    file = str(tmp_path / "run.sosr")

    def groups(way: str) -> list[dict[str, Any]]:
        done = run([*SOSCOPE, "mem", "report", "--by", way, "--json", file])
        document = json.loads(done.stdout)
        assert document["groups"]["by"] == way
        rows: list[dict[str, Any]] = document["groups"]["rows"]
        text = run([*SOSCOPE, "mem", "report", "--by", way, file])
        assert (text.returncode, text.stderr) == (0, "")
        assert len(text.stdout.splitlines()) >= len(rows)
        return rows

    assert {"native"} == {row["what"] for row in groups("image")}
    assert {row["name"]: row["count"] for row in groups("image")}["forks"] == 2000
    assert {row["name"]: row["count"] for row in groups("type")}["malloc"] == 2000
    assert [row["count"] for row in groups("line") if "forks.c:" in row["name"]] == [2000]
    threads = [row for row in groups("thread") if row["count"] == 50]
    assert len(threads) == 40
    assert {row["allocations"] for row in threads} == {2050}
    times = groups("time")
    assert sum(row["allocations"] for row in times) >= 82_000
    assert all(row["begin_ns"] < row["end_ns"] for row in times)


def test_leaks_of_a_recording_may_be_old(tmp_path: Path) -> None:
    program = built(
        "ages.c",
        """
        static void *volatile kept[2];
        int main(int argc, char **argv)
        {
            kept[0] = KEEP(malloc, 111, malloc(111));
            usleep(argc > 1 ? 1500000 : 0);
            kept[1] = malloc(222);
            return 0;
        }""",
    )
    recorded(tmp_path, [program, "slowly"])
    file = str(tmp_path / "run.sosr")

    def older(seconds: int) -> list[int]:
        done = run([*SOSCOPE, "mem", "leaks", "--older", f"{seconds}s", "--json", file])
        return [row["bytes"] for row in json.loads(done.stdout)["native"]]

    # the one is more than a second older than the other, which is as old as its last steps took
    age = next(age for age in itertools.count(1) if 222 not in older(age))
    assert older(age) == [111]
    recorded(tmp_path, [program], "--aggregate")
    done = run([*SOSCOPE, "mem", "leaks", "--older", "1s", file])
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not say how old" in done.stderr
    recorded(tmp_path, [program], "--mode", "count")
    done = run([*SOSCOPE, "mem", "report", "--peak", file])
    assert (done.returncode, done.stdout) == (1, "")
    assert "only sums of what is alive" in done.stderr


# Blocks until there is no more address space, and small ones beside them
LITTLE_SPACE = """
#include <sys/resource.h>
static void *volatile kept[4000];
int main(int argc, char **argv)
{
    struct rlimit limit = {1000 << 20, 1000 << 20};
    int made = 0;
    kept[3999] = malloc(1);
    if (setrlimit(RLIMIT_AS, &limit))
        return 2;
    while (made < 3900 && (kept[made] = malloc(argc > 1 ? 100 << 10 : 8 << 20)))
        made++;
    printf("%d\\n", made);
    return 0;
}
"""


def test_a_limit_of_the_address_space_is_left_to_the_program(tmp_path: Path) -> None:
    program = built("space.c", LITTLE_SPACE)
    for words in ([], ["small"]):
        alone = int(run([program, *words]).stdout)
        report, output = recorded(tmp_path, [program, *words], "--mode", "count")
        assert int(output) > 0.65 * alone
        large = [row for row in report["native"] if row["sizes"][0] > 1 << 16]
        assert sum(row["count"] for row in large) == int(output)
