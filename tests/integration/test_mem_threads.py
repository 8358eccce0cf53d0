# SPDX-License-Identifier: Apache-2.0
"""`soscope mem run --blocks`: the stacks of threads, by the call that made the thread.

The programs say how many there are, and how large each one's block is by /proc/self/maps.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes.run import besides_cost, run
from tests.support.targets.accounts import SOSCOPE, built, recorded, reported, rows_of, sizes

PARTS = """
#include <dirent.h>
#include <semaphore.h>
#include <threads.h>
static sem_t begun;
static long block;
/* the mapping that an address is in, and the guard in front of it, which is in several pieces if
   the stack had a smaller guard when another thread had it */
static long block_of(void *addr)
{
    unsigned long start, end, before = 0, guard = 0, at = (unsigned long)addr;
    char line[500], access[5];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        sscanf(line, "%lx-%lx %4s", &start, &end, access);
        if (start != before)
            guard = 0;
        if (at >= start && at < end)
            break;
        guard = access[0] == '-' ? guard + end - start : 0;
        before = end;
    }
    fclose(maps);
    return end - start + guard;
}
static void *stay(void *unused)
{
    int here;
    block = block_of(&here);
    sem_post(&begun);
    for (;;)
        pause();
}
static int stay_too(void *unused) { stay(unused); return 0; }
static void *end(void *given) { return given; }
static void *leave(void *given) { pthread_exit(given); }
static void *detach_itself(void *given) { pthread_detach(pthread_self()); return given; }
static int seven(void *unused) { return 7; }
/* threads that are over are not in the kernel's list any more */
static void wait_until(int alive)
{
    for (int tasks = -1; tasks != alive;) {
        DIR *all = opendir("/proc/self/task");
        for (tasks = -2; readdir(all);)
            tasks++;
        closedir(all);
    }
}
#define STAY(api, create)                                   \\
    do {                                                    \\
        if (create)                                         \\
            exit(2);                                        \\
        sem_wait(&begun);                                   \\
        printf("keep %s %d %ld\\n", #api, __LINE__, block); \\
    } while (0)
"""

KINDS = """
int main(int argc, char **argv)
{
    static char room[1 << 20] __attribute__((aligned(4096)));
    pthread_t thread, many[20];
    pthread_attr_t usual, small, detached, own;
    thrd_t other;
    void *result;
    int value;
    sem_init(&begun, 0, 0);
    pthread_attr_init(&usual);
    pthread_attr_setstacksize(&usual, 1 << 20); /* soscope reads each stack at the end */
    pthread_setattr_default_np(&usual);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 300000);
    pthread_attr_setguardsize(&small, 3 * 4096);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_init(&own);
    pthread_attr_setstack(&own, room, sizeof room);
    for (int i = 0; i < 20; i++)
        pthread_create(&many[i], NULL, i % 2 ? end : leave, &many[i]);
    for (int i = 0; i < 20; i++)
        if (pthread_join(many[i], &result) || result != &many[i])
            return 3;
    for (int i = 0; i < 10; i++) {
        pthread_create(&thread, &detached, i % 2 ? end : leave, NULL);
        pthread_create(&thread, NULL, detach_itself, NULL);
        pthread_create(&thread, NULL, end, NULL);
        pthread_detach(thread);
    }
    if (thrd_create(&other, seven, NULL) || thrd_join(other, &value) || value != 7)
        return 4;
    pthread_create(&thread, NULL, end, NULL);
    while (pthread_tryjoin_np(thread, NULL))
        usleep(1000);
    pthread_create(&thread, NULL, stay, NULL);
    sem_wait(&begun);
    pthread_cancel(thread);
    if (pthread_join(thread, &result) || result != PTHREAD_CANCELED)
        return 5;
    pthread_create(&thread, &own, stay, NULL); /* its memory is not the C library's */
    sem_wait(&begun);
    for (int i = 0; i < 100; i++)
        STAY(pthread_create, pthread_create(&thread, NULL, stay, NULL));
    pthread_create(&thread, NULL, end, NULL); /* whose stack the next thread gets */
    if (pthread_join(thread, NULL))
        return 7;
    for (int i = 0; i < 5; i++)
        STAY(pthread_create, pthread_create(&thread, &small, stay, NULL));
    for (int i = 0; i < 3; i++)
        STAY(pthread_create, pthread_create(&thread, &detached, stay, NULL));
    for (int i = 0; i < 4; i++)
        STAY(thrd_create, thrd_create(&other, stay_too, NULL));
    for (int i = 0; i < 6; i++) { /* they end, and nobody joins them */
        if (pthread_create(&thread, NULL, end, NULL))
            return 6;
        printf("keep pthread_create %d %ld\\n", __LINE__ - 2, block_of((char *)thread - 10000));
    }
    wait_until(1 + 1 + 100 + 5 + 3 + 4);
    fflush(stdout);
    if (argc > 1)
        kill(getpid(), SIGKILL);
    _exit(0);
}
"""


def truth(output: str) -> tuple[Counter[tuple[str, int]], Counter[tuple[str, int]]]:
    """Return how many stacks a program says that there are, and their bytes, by (api, line)."""
    counts: Counter[tuple[str, int]] = Counter()
    total: Counter[tuple[str, int]] = Counter()
    for api, line, size in re.findall(r"^keep (\S+) (\d+) (\d+)$", output, re.MULTILINE):
        counts[api, int(line)] += 1
        total[api, int(line)] += int(size)
    return counts, total


@pytest.mark.every(3)
@pytest.mark.parametrize("options", [[], ["--mode", "sample"], ["--aggregate"]])
def test_each_thread_that_is_there_has_a_row(tmp_path: Path, options: list[str]) -> None:
    report, output = recorded(tmp_path, [built("kinds.c", PARTS + KINDS)], *options)
    counts, total = truth(output)
    assert sum(counts.values()) == 118
    found = [row for row in report["native"] if row["api"].endswith("_create")]
    report["native"] = found
    assert reported(report, "kinds.c") == counts
    assert sizes(report, "kinds.c") == total
    mapped = report["totals"]["mapped"]
    assert (mapped["live"], mapped["live_bytes"]) == (118, sum(total.values()))
    assert mapped["allocations"] - mapped["frees"] == 118
    assert mapped["allocations"] == 118 + 20 + 30 + 1 + 1 + 1 + 1
    shown = run([*SOSCOPE, "mem", "report", "--peak", "--json", str(tmp_path / "run.sosr")])
    report["native"] = [
        row for row in json.loads(shown.stdout)["native"] if row["api"].endswith("_create")
    ]
    assert reported(report, "kinds.c") == counts


SHARED = """
enum { MAKERS = 4, MADE = 250, STAY = 10 };
static pthread_t shared; /* everybody's: its value is of no use */
static volatile int over, alive;
static void *linger(void *stays)
{
    if (!stays)
        return NULL;
    if (__atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST) == MAKERS * STAY)
        sem_post(&begun);
    for (;;)
        pause();
}
static void *spoil(void *unused)
{
    int here;
    block = block_of(&here);
    while (!over)
        shared = pthread_self();
    return NULL;
}
static void *make(void *attributes)
{
    for (long i = 0; i < MADE; i++)
        if (pthread_create(&shared, attributes, linger, (void *)(i % (MADE / STAY) == 0)))
            exit(2);
    return NULL;
}
int main(void)
{
    pthread_attr_t small;
    pthread_t spoiler, makers[MAKERS];
    sem_init(&begun, 0, 0);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 17);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    pthread_create(&spoiler, NULL, spoil, NULL);
    for (int i = 0; i < MAKERS; i++)
        pthread_create(&makers[i], NULL, make, &small);
    for (int i = 0; i < MAKERS; i++)
        pthread_join(makers[i], NULL);
    sem_wait(&begun);
    over = 1;
    pthread_join(spoiler, NULL);
    wait_until(1 + MAKERS * STAY);
    printf("%ld\\n", block);
    fflush(stdout);
    _exit(0);
}
"""


def test_threads_are_told_apart_without_their_names(tmp_path: Path) -> None:
    report, output = recorded(tmp_path, [built("shared.c", PARTS + SHARED)])
    mapped = report["totals"]["mapped"]
    assert mapped["allocations"] == 1 + 4 + 4 * 250
    assert mapped["live"] == 4 * 10
    small = mapped["live_bytes"] // mapped["live"]
    assert 1 << 17 <= small < 1 << 18
    assert mapped["allocated_bytes"] == 5 * int(output) + 4 * 250 * small
    assert not [note for note in report["notes"] if "threads" in besides_cost(note)]


FORKED = """
static char room[1 << 24];
static size_t used;
static int is_armed;
static pid_t child = -1;
void *malloc(size_t size)
{
    return room + __atomic_fetch_add(&used, size + 31 & -16ul, __ATOMIC_RELAXED);
}
void free(void *block) {}
void *realloc(void *old, size_t size) { return malloc(size); }
/* the C library asks for memory in the middle of making a thread */
void *calloc(size_t count, size_t size)
{
    if (is_armed) {
        is_armed = 0;
        child = fork();
    }
    return malloc(count * size);
}
static void *work(void *given) { ++*(int *)given; return given; }
static int make(int *value)
{
    pthread_t thread;
    void *result;
    return pthread_create(&thread, NULL, work, value) || pthread_join(thread, &result) ||
           result != value;
}
int main(void)
{
    int value = 0, status;
    is_armed = 1;
    if (make(&value) || make(&value) || value != 2 || is_armed)
        _exit(2);
    if (child && (waitpid(child, &status, 0) != child || status))
        _exit(3);
    _exit(0);
}
"""


@pytest.mark.parametrize("options", [[], ["-f"]])
def test_a_child_forked_in_the_middle_goes_on_making_its_thread(
    tmp_path: Path, options: list[str]
) -> None:
    report, _ = recorded(tmp_path, [built("forked.c", FORKED)], *options)
    is_followed = bool(options)
    mapped = report["totals"]["mapped"]
    assert mapped["allocations"] == mapped["frees"] == 2 + is_followed
    assert any("1 threads" in note for note in report["notes"]) == is_followed


# Threads one after the other, while some others go on. Their thread pointers are chosen so that
# the agent looks for all of them from one place of its table on (layout.h, THREAD_FACTOR), and
# so that there are more than it looks at.
ONE_PLACE = """
enum { STAY = 10, COME = 200, SIZE = 64 << 10 };
static void *volatile kept[COME], *volatile more[STAY];
static pthread_barrier_t barrier;
static char *all;
static uint64_t at, behind;
static void *tell(void *unused) { return (void *)pthread_self(); }
static void *come(void *number) { return kept[(long)number] = malloc(1000); }
static void *stay(void *number)
{
    free(malloc(1));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return more[(long)number] = malloc(2000);
}
static uint64_t begin(pthread_t *thread, void *(*function)(void *), void *argument)
{
    uint64_t end = (uint64_t)all + at + SIZE;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, all + at, SIZE) ||
        pthread_create(thread, &attributes, function, argument))
        exit(2);
    return end;
}
static void next(void)
{
    do
        at += 4096;
    while ((uint32_t)(((uint64_t)all + at + SIZE - behind) >> 12) * 0x9e3779b1 >> 19 != 4000);
}
int main(void)
{
    pthread_t threads[STAY], thread;
    void *pointer;
    all = mmap(NULL, 16ull << 30, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    behind = begin(&thread, tell, NULL);
    pthread_join(thread, &pointer);
    behind -= (uint64_t)pointer;
    at = SIZE;
    pthread_barrier_init(&barrier, NULL, STAY + 1);
    for (long i = 0; i < STAY; i++) {
        next();
        begin(&threads[i], stay, (void *)i);
    }
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < COME; i++) {
        next();
        begin(&thread, come, (void *)i);
        pthread_join(thread, NULL);
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < STAY; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
"""


@pytest.mark.parametrize("mode", ["exact", "sample=1"])
def test_places_of_threads_that_have_ended_are_used_again(mode: str, tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("place.c", ONE_PLACE)], "--mode", mode)
    found = [row for row in rows_of(report, "place.c") if row["api"] == "malloc"]
    assert {(row["frames"][0]["symbol"], row["count"]) for row in found} == {
        ("come", 200),
        ("stay", 10),
    }
