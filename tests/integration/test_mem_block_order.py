# SPDX-License-Identifier: Apache-2.0
"""Blocks of several threads, processes and programs are in the order in which they came and went.

One of them at a time allocates and frees, and keeps the account of all: it knows the peak. They
take turns as fast as they can, so that an event in the wrong place is another peak.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE, built, recorded, rows_of, sizes

ORDER = """
enum { TURNS = 1500, WORKERS = 2, PLACES = 8, ROUNDS = 300 };
struct place { void *block; long bytes; };
static struct account {
    volatile long turn; // whose it is: the number of a worker is what is left of it
    unsigned seed;
    long here, most, made;
    struct place all[PLACES];
} *account;
static int apart;
static unsigned number(unsigned below)
{
    account->seed = account->seed * 1103515245 + 12345;
    return (account->seed >> 12) % below;
}
static void put(struct place *place, long bytes)
{
    account->here -= place->bytes;
    free(place->block);
    place->bytes = bytes;
    account->here += bytes;
    account->made += bytes > 0;
    place->block = bytes ? malloc(bytes) : NULL;
    if (account->here > account->most)
        account->most = account->here;
}
static void *work(void *which)
{
    long waits = 0;
    struct place own[PLACES] = {{NULL, 0}}, *mine = apart ? own : account->all;
    for (;;) {
        long turn = __atomic_load_n(&account->turn, __ATOMIC_ACQUIRE);
        if (turn >= TURNS) {
            for (int i = 0; apart && i < PLACES; i++)
                free(own[i].block);
            return NULL;
        }
        if (turn % WORKERS != (long)which) {
            if (++waits % 1000 == 0)
                sched_yield();
            continue;
        }
        for (unsigned i = number(3) ? number(4) : number(ROUNDS); i; i--)
            put(&mine[number(PLACES)], number(2) * number(100000));
        put(&mine[0], 0);
        // only one of these is there at a time: two would be another peak
        put(&mine[0], 1000000 + number(1000));
        put(&mine[0], 0);
        __atomic_store_n(&account->turn, turn + 1, __ATOMIC_RELEASE);
    }
}
int main(int argc, char **argv)
{
    int file = argc > 2 ? atoi(argv[2]) : memfd_create("account", 0);
    char text[20];
    if (ftruncate(file, 4096))
        abort();
    account = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    apart = strcmp(argv[1], "threads") != 0;
    if (argc > 3) {
        work((void *)atol(argv[3]));
        return 0;
    }
    snprintf(text, sizeof text, "%d", file);
    for (long i = 1; i < WORKERS; i++) {
        pthread_t thread;
        char which[] = {'0' + i, 0};
        if (!apart)
            pthread_create(&thread, NULL, work, (void *)i);
        else if (!fork()) {
            if (!strcmp(argv[1], "programs"))
                execl("/proc/self/exe", argv[0], argv[1], text, which, NULL);
            work((void *)i);
            _exit(0);
        }
    }
    work((void *)0);
    while (apart && wait(NULL) > 0)
        ;
    printf("%ld %ld\\n", account->most, account->made);
    return 0;
}
"""


@pytest.mark.every(3)
@pytest.mark.parametrize("aggregate", [[], ["--aggregate"]])
@pytest.mark.parametrize("who", ["threads", "processes", "programs"])
def test_the_peak_of_those_who_take_turns_is_theirs(
    who: str, aggregate: list[str], tmp_path: Path
) -> None:
    options = [*aggregate, *(["-f"] if who != "threads" else [])]
    report, output = recorded(tmp_path, [built("order.c", ORDER), who], *options)
    most, made = map(int, output.split())
    shown = run([*SOSCOPE, "mem", "report", "--peak", "--json", str(tmp_path / "run.sosr")])
    peak = rows_of(json.loads(shown.stdout), "order.c")
    # mappings and stacks of threads have a peak of their own
    mapped = ("mmap", "pthread_create")
    blocks = [row for row in peak if row["api"] not in mapped]
    assert sum(row["bytes"] for row in blocks) == most
    totals = report["totals"]["native"]
    assert made <= totals["allocations"] < made + 100
    assert not [note for note in report["notes"] if "unseen" in note or "not seen" in note]
    if who == "threads":
        left = sizes(report, "order.c")
        assert sum(size for (api, _), size in left.items() if api not in mapped) < most
