# SPDX-License-Identifier: Apache-2.0
"""`soscope mem run --blocks`: each block that a program keeps is found, by the line that made it.

The programs keep accounts of their own, and print them; glibc's accounts are asked where it has
some. A program's lines begin with `keep`, `total`, or what a test looks for.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.tools import need
from tests.support.processes.run import besides_cost, run
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
    sizes,
)


def test_each_block_has_its_line_function_and_size(tmp_path: Path) -> None:
    report, output = recorded(tmp_path, [built("every.c", EVERY)])
    assert_same(report, output, "every.c")
    assert (report["state"], report["cut"], report["exit"]) == (
        "complete",
        None,
        {"status": 0, "signal": None},
    )
    frames = rows_of(report, "every.c")[0]["frames"]
    assert (frames[0]["image"], frames[0]["symbol"]) == ("every", "main")
    totals = report["totals"]["native"]
    assert totals["live"] == sum(row["count"] for row in report["native"])
    assert totals["live_bytes"] == sum(row["bytes"] for row in report["native"])
    assert totals["allocations"] == totals["frees"] + totals["live"]
    assert totals["temporary"] >= 1000


PLUS = """
#include <new>
struct alignas(128) Wide { char bytes[256]; };
struct Big { char bytes[1000]; ~Big() {} };
static void *volatile kept[64];
__attribute__((noinline)) static int deep(int n)
{
    volatile char room[200];
    room[0] = n;
    return n ? deep(n - 1) + room[0] : 0;
}
int main()
{
    int n = 0, caught = 0;
    for (int i = 0; i < 100; i++)
        delete new int(i);
    for (int i = 0; i < 100; i++)
        delete[] new char[i + 1];
    delete new Wide;
    delete[] new Wide[3];
    kept[n++] = KEEP(new, 4, new int(1));
    kept[n++] = KEEP(new[], 400, new int[100]);
    kept[n++] = KEEP(new, 256, new Wide);
    kept[n++] = KEEP(new[], 768, new Wide[3]);
    kept[n++] = KEEP(new, 1000, new (std::nothrow) Big);
    kept[n++] = KEEP(new[], 77, new (std::nothrow) char[77]);
    kept[n++] = KEEP(malloc, 30, malloc(30));
    for (int i = 0; i < 20; i++)
        try {
            kept[60] = new char[(SIZE_MAX >> 1) - 100 - i];
        } catch (const std::bad_alloc &) {
            caught++;
            deep(30);
        }
    if (new (std::nothrow) char[(SIZE_MAX >> 1) - 100])
        return 2;
    kept[n++] = KEEP(malloc, 31, malloc(31));
    kept[n++] = KEEP(new, 8, new long(3));
    return caught == 20 ? 0 : 3;
}
"""


def test_new_and_delete_are_one_block_each(tmp_path: Path) -> None:
    report, output = recorded(tmp_path, [built("plus.cc", PLUS, "-std=c++17", "-lstdc++")])
    assert_same(report, output, "plus.cc")
    assert not [
        row for row in report["native"] if row["api"] == "operator new" and row["count"] > 9
    ]


RACE = """
enum { KEPT = 24000 };
static void *volatile kept[KEPT];
static void *volatile shared[64];
static volatile int over;
static void *grow(void *unused)
{
    unsigned seed = 1;
    while (!over)
        for (int i = 0; i < 64; i++) {
            void *p = __atomic_exchange_n(&shared[i], NULL, __ATOMIC_ACQ_REL);
            seed = seed * 1103515245 + 12345;
            p = realloc(p, 16 + (seed >> 16) % 4000);
            free(__atomic_exchange_n(&shared[i], p, __ATOMIC_ACQ_REL));
        }
    return NULL;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, grow, NULL);
    for (int i = 0; i < KEPT; i++) {
        void *p = realloc(__atomic_exchange_n(&shared[i % 64], NULL, __ATOMIC_ACQ_REL), 200);
        free(__atomic_exchange_n(&shared[i % 64], p, __ATOMIC_ACQ_REL));
        kept[i] = malloc(16 + i % 300); /* keep */
    }
    over = 1;
    pthread_join(thread, NULL);
    for (int i = 0; i < 64; i++)
        free(shared[i]);
    return 0;
}
"""


def test_no_block_is_lost_to_a_race(tmp_path: Path) -> None:
    text = PRELUDE + RACE
    line = next(at for at, row in enumerate(text.splitlines(), 1) if "/* keep */" in row)
    for _ in range(3):
        report, _ = recorded(tmp_path, [built("race.c", RACE)])
        assert reported(report, "race.c") == {("malloc", line): 24000}
        assert sizes(report, "race.c") == {
            ("malloc", line): sum(16 + i % 300 for i in range(24000))
        }
        assert report["totals"]["dropped"] == 0


@pytest.mark.every(3)
@pytest.mark.parametrize("how", ["exit", "_exit", "abort", "kill", "segv", "xec"])
def test_what_is_alive_at_each_end_is_there(how: str, tmp_path: Path) -> None:
    status = {"_exit": 3, "abort": -signal.SIGABRT, "kill": -9, "segv": -signal.SIGSEGV}.get(how, 0)
    command = [built("endings.c", ENDINGS), how]
    report, output = recorded(tmp_path, command, status=status)
    assert_same(report, output, "endings.c")
    assert len(kept(output)) == (201 if how == "exit" else 200)
    name = signal.Signals(-status).name if status < 0 else None
    ends = {"status": status if status >= 0 else None, "signal": name}
    assert (report["state"], report["exit"]) == ("complete", ends)


FORKS = """
static void *volatile kept[30];
int main(void)
{
    kept[0] = KEEP(malloc, 10, malloc(10));
    void *both = malloc(99);
    pid_t child = fork();
    if (!child) {
        free(both);
        kept[1] = malloc(5000); /* child */
        free(malloc(7));
        _exit(kept[1] ? 4 : 5);
    }
    int status;
    waitpid(child, &status, 0);
    free(both);
    kept[2] = KEEP(malloc, 20, malloc(20));
    return WEXITSTATUS(status) == 4 ? 0 : 1;
}
"""


def test_children_are_followed_or_change_nothing(tmp_path: Path) -> None:
    text = PRELUDE + FORKS
    line = next(at for at, row in enumerate(text.splitlines(), 1) if "/* child */" in row)
    command = [built("forks.c", FORKS)]
    report, output = recorded(tmp_path, command)
    assert_same(report, output, "forks.c")
    assert len(report["processes"]) == 1
    followed, output = recorded(tmp_path, command, "-f")
    pids = [process["pid"] for process in followed["processes"]]
    assert len(pids) == 2
    rows = {(row["pid"], row["frames"][0]["line"]): row for row in rows_of(followed, "forks.c")}
    assert rows.pop((pids[1], line))["bytes"] == 5000
    assert {pid for pid, _ in rows} == {pids[0]}
    assert [process["exit"]["status"] for process in followed["processes"]] == [0, 4]
    assert followed["processes"][1]["parent"] == pids[0]


MAPS = """
#define MAP(size) mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
int main(void)
{
    char *p, *q;
    MAP(123 * 4096); /* whole */
    p = MAP(100 * 4096); /* parts */
    munmap(p + 10 * 4096, 20 * 4096);
    munmap(p + 90 * 4096, 10 * 4096);
    p = MAP(50 * 4096);
    munmap(p, 50 * 4096);
    if (!munmap((char *)1, 4096))
        return 2;
    p = MAP(30 * 4096);
    p = mremap(p, 30 * 4096, 3000 * 4096, MREMAP_MAYMOVE); /* moved */
    if (mremap(p, 4096, (size_t)1 << 50, 0) != MAP_FAILED)
        return 3;
    p = MAP(40 * 4096);
    mmap(p + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); /* fixed */
    munmap(p, 4096);
    munmap(p + 2 * 4096, 38 * 4096);
    q = sbrk(10000); /* heap */
    sbrk(5000);
    sbrk(-5000);
    if (brk(q + 9000))
        return 4;
    return 0;
}
"""


def test_mappings_come_and_go_in_parts(tmp_path: Path) -> None:
    text = (PRELUDE + MAPS).splitlines()
    lines = {
        name: next(at for at, row in enumerate(text, 1) if f"/* {name} */" in row)
        for name in ("whole", "parts", "moved", "fixed", "heap")
    }
    report, _ = recorded(tmp_path, [built("maps.c", MAPS)])
    assert sizes(report, "maps.c") == {
        ("mmap", lines["whole"]): 123 * 4096,
        ("mmap", lines["parts"]): 70 * 4096,
        ("mremap", lines["moved"]): 3000 * 4096,
        ("mmap", lines["fixed"]): 4096,
        ("sbrk", lines["heap"]): 9000,
    }
    totals = report["totals"]["mapped"]
    assert (totals["live"], totals["allocations"], totals["frees"]) == (5, 9, 4)
    assert totals["live_bytes"] == sum(sizes(report, "maps.c").values())


TEMPORARY = """
static void *volatile kept[300];
int main(void)
{
    char *p, *q;
    for (int i = 0; i < 300; i++) {
        p = malloc(40); /* short */
        free(p);
        p = malloc(50); /* long */
        q = malloc(60); /* short */
        free(q);
        free(p);
        kept[i] = malloc(70);
    }
    for (int i = 0; i < 300; i++)
        free(kept[i]);
    return 0;
}
"""


def test_temporary_blocks_are_freed_before_the_next_one(tmp_path: Path) -> None:
    text = (PRELUDE + TEMPORARY).splitlines()
    lines = [at for at, row in enumerate(text, 1) if "/* short */" in row]
    recorded(tmp_path, [built("short.c", TEMPORARY)])
    shown = run([*SOSCOPE, "mem", "report", "--temporary", "--json", str(tmp_path / "run.sosr")])
    last = next(at for at, row in enumerate(text, 1) if "malloc(70)" in row)
    found = reported(json.loads(shown.stdout), "short.c")
    # the last of all blocks is among those that are freed at the end, the last one of its thread
    found.pop(("malloc", last), None)
    assert found == {("malloc", line): 300 for line in lines}


ACCOUNT = """
static void *volatile kept[5000];
static void *work(void *first)
{
    for (long i = 0; i < 2000; i++) {
        kept[(long)first + i] = malloc(24 + 16 * (i % 50)); /* chunks have no bytes to spare */
        if (i % 3 == 0) {
            free(kept[(long)first + i]);
            kept[(long)first + i] = NULL;
        }
    }
    return NULL;
}
int main(void)
{
    pthread_t thread;
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    struct mallinfo2 before = mallinfo2();
    work((void *)0);
    pthread_create(&thread, NULL, work, (void *)2000);
    pthread_join(thread, NULL);
    malloc_trim(0);
    struct mallinfo2 after = mallinfo2();
    char text[100];
    int size = snprintf(text, sizeof text, "total %zu\\n", after.uordblks - before.uordblks);
    return write(1, text, size) != size;
}
"""


def test_glibc_counts_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tunables = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.arena_max=1"
    monkeypatch.setenv("GLIBC_TUNABLES", tunables)
    report, output = recorded(tmp_path, [built("account.c", ACCOUNT)])
    rows = rows_of(report, "account.c")
    # a word of each chunk is malloc's own
    ours = sum(row["bytes"] + 8 * row["count"] for row in rows)
    total = int(output.split()[1])
    assert sum(row["count"] for row in rows) == 2 * (2000 - 667)
    assert 0 <= total - ours < 2000  # the thread's descriptor, and its stack's


SIGNALS = """
static void *volatile kept[20000];
static sigjmp_buf back;
static volatile int n, jumps;
static void handler(int number)
{
    void *p = NULL;
    if (n % 2) {
        jumps++;
        siglongjmp(back, 1);
    }
}
__attribute__((noinline)) static void spin(int count)
{
    for (volatile int i = 0; i < count; i++)
        ;
}
int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    for (n = 0; n < 20000; n++) {
        if (!sigsetjmp(back, 1)) {
            if (n % 50 == 1)
                raise(SIGALRM);
            spin(10);
        }
        kept[n] = malloc(24 + n % 100); /* keep */
        if (n % 4 == 0) {
            free(kept[n]);
            kept[n] = NULL;
        }
    }
    return jumps == 400 ? 0 : 1;
}
"""


def test_jumps_out_of_handlers_lose_nothing(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("jumps.c", SIGNALS)])
    assert sum(reported(report, "jumps.c").values()) == 15000


GARBAGE = """
static void *volatile kept[1000];
static int n;
static uint64_t self[2] = {(uint64_t)self, 7};
__attribute__((noinline)) static void *with(uint64_t fp, size_t size)
{
    void *p;
    __asm__ volatile("push %%rbp; push %%rbx; mov %%rsp, %%rbx; and $-16, %%rsp; mov %1, %%rbp;"
                     "call malloc@PLT; mov %%rbx, %%rsp; pop %%rbx; pop %%rbp"
                     : "=a"(p) : "r"(fp), "D"(size)
                     : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
    return p;
}
static void *work(void *unused)
{
    uint64_t here[8] = {(uint64_t)here, 3, (uint64_t)&here[4], (uint64_t)work};
    char *alone = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(alone + 4096, 4096, PROT_NONE);
    uint64_t garbage[] = {
        0, 1, 8, -1, -8, -16, -24, -32, 1ull << 63, 1ull << 47, (1ull << 47) - 16, 0x7fffffffe000,
        (uint64_t)here, (uint64_t)here + 1, (uint64_t)&here[2], (uint64_t)self, (uint64_t)work,
        (uint64_t)alone, (uint64_t)alone + 4088, (uint64_t)alone + 4080, (uint64_t)alone + 4096,
        (uint64_t)here + 4096, (uint64_t)here + (1 << 20), (uint64_t)here + (8 << 20),
        (uint64_t)here + (1ull << 30), 0xdeadbeefdeadbee8, (uint64_t)here - 64,
    };
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < sizeof garbage / sizeof *garbage; k++)
            kept[n++] = with(garbage[k], 100 + k);
    return NULL;
}
int main(void)
{
    pthread_t thread;
    work(NULL);
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    return n != 2 * 3 * 27;
}
"""


def test_a_frame_pointer_may_be_anything(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("garbage.c", GARBAGE)])
    rows = [row for row in rows_of(report, "garbage.c") if row["api"] == "malloc"]
    assert sum(row["count"] for row in rows) == 2 * 3 * 27
    assert {row["frames"][0]["symbol"] for row in rows} == {"with"}


POINTERS = """
#include <dlfcn.h>
struct allocator { void *(*make)(size_t); void *(*again)(void *, size_t); void (*end)(void *); };
static struct allocator table = {malloc, realloc, free};
static const struct allocator constant = {malloc, realloc, free};
static void *volatile kept[10];
__attribute__((noinline)) static void each(void **list, int count, void (*end)(void *))
{
    for (int i = 0; i < count; i++)
        end(list[i]);
}
int main(void)
{
    void *list[100];
    void (*volatile end)(void *) = free;
    void *(*volatile make)(size_t) = malloc;
    if (end != table.end || end != constant.end || make != table.make || make != constant.make)
        return 2;
    for (int i = 0; i < 100; i++)
        list[i] = malloc(50);
    each(list, 100, free);
    for (int i = 0; i < 100; i++)
        table.end(constant.make(60));
    kept[0] = KEEP(malloc, 70, table.make(70));
    kept[1] = KEEP(realloc, 80, constant.again(table.make(10), 80));
    end(make(5));
    void (*found)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    return found ? 0 : 3;
}
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("flags", [(), ("-no-pie", "-fno-pie"), ("-fno-plt",)])
def test_calls_through_pointers_are_seen(flags: tuple[str, ...], tmp_path: Path) -> None:
    report, output = recorded(tmp_path, [built("pointers.c", POINTERS, *flags)])
    assert_same(report, output, "pointers.c")


@pytest.mark.every(4)
@pytest.mark.parametrize("name", ["as", "sort", "sqlite3", "tar"])
def test_valgrind_counts_the_same(name: str, tmp_path: Path) -> None:
    source = tmp_path / "empty.s"
    source.write_text(".globl main\nmain: ret\n")
    command = {
        "as": ["as", "-o", str(tmp_path / "empty.o"), str(source)],
        "sort": ["sort", "--parallel=1", __file__],
        "sqlite3": ["sqlite3", ":memory:", "create table t(a); insert into t values(1);"],
        "tar": ["tar", "cf", "/dev/null", str(source)],
    }[name]
    words = [need("valgrind"), "--run-libc-freeres=no", "--run-cxx-freeres=no"]
    shown = run([*words, need(command[0]), *command[1:]], stdin=subprocess.DEVNULL).stderr
    alive = re.search(r"in use at exit: ([\d,]+) bytes in ([\d,]+) blocks", shown)
    usage = re.search(r"total heap usage: ([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes", shown)
    assert alive, shown
    assert usage, shown
    report, _ = recorded(tmp_path, command)
    totals = report["totals"]["native"]
    truth = [int(number.replace(",", "")) for number in (*alive.groups(), *usage.groups())]
    assert [totals[key] for key in ("live", "allocations", "frees")] == truth[1:4]


OWN_ALLOCATOR = """
#include <unistd.h>
static char pool[1 << 20];
static size_t at;
void *malloc(size_t size)
{
    void *block = pool + at;
    at += size + 15 & ~15ul;
    return block;
}
void free(void *block) {}
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) { return malloc(size); }
int main(void)
{
    malloc(9);
    return read(0, pool, 1);
}
"""


def test_a_static_program_is_named_by_each_report(tmp_path: Path) -> None:
    program = built("every.c", EVERY, "-static")
    report, _ = recorded(tmp_path, [program])
    (note,) = filter(besides_cost, report["notes"])
    assert note.startswith(f"{program}: nothing was recorded: it is statically linked")


STATIC = """
int main(void)
{
    char byte;
    return read(0, &byte, 1) != 0;
}
"""


@pytest.mark.parametrize(
    ("source", "flags", "said"),
    [
        (STATIC, ["-static"], "soscope: {}: nothing is recorded"),
        (OWN_ALLOCATOR, [], "soscope: the program has an allocator of its own"),
    ],
)
def test_what_is_not_recorded_is_said_at_once(
    source: str, flags: list[str], said: str, tmp_path: Path
) -> None:
    program = built("waits.c", source, *flags)
    command = ["mem", "run", "--blocks", "-o", str(tmp_path / "rec"), "--", program]
    with subprocess.Popen(
        [*SOSCOPE, *command], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as soscope:
        assert soscope.stdin is not None
        assert soscope.stderr is not None
        # the program has not ended: it reads what is written behind this
        assert soscope.stderr.readline().startswith(said.format(program))
        soscope.stdin.close()
        assert not besides_cost(soscope.stderr.read())
    assert soscope.returncode == 0


def test_a_program_that_defines_malloc_is_named(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("ownmalloc.c", OWN_ALLOCATOR)])
    assert any("has an allocator of its own" in note for note in report["notes"])
    report, _ = recorded(tmp_path, [built("every.c", EVERY)])
    assert not any("allocator" in note for note in report["notes"])


GIVEN = """
#include <dlfcn.h>
static void *volatile kept[64];
static void *(*ask(const char *how))(size_t)
{
    if (!strcmp(how, "next"))
        return dlsym(RTLD_NEXT, "malloc");
    if (!strcmp(how, "version"))
        return dlvsym(RTLD_DEFAULT, "malloc", "GLIBC_2.2.5");
    if (!strcmp(how, "handle"))
        return dlsym(dlopen("libc.so.6", RTLD_LAZY), "malloc");
    return dlsym(RTLD_DEFAULT, strcmp(how, "other") ? "malloc" : "strlen");
}
int main(int argc, char **argv)
{
    void *(*asked)(size_t) = ask(argv[1]), *(*volatile taken)(size_t) = malloc;
    int n = 0;
    kept[n++] = KEEP(malloc, 10, malloc(10));
    kept[n++] = KEEP(malloc, 20, taken(20));
    if (!strcmp(argv[1], "other"))
        return 0;
    said(asked == taken ? "one" : "another", __LINE__, 0);
    for (int i = 0; i < 30; i++)
        kept[n++] = asked(100);
    return 0;
}
"""


def unseen(report: dict[str, Any]) -> list[str]:
    return [note for note in report["notes"] if note.startswith("not seen: ")]


@pytest.mark.parametrize("how", ["default", "next", "version", "handle"])
def test_pointers_that_dlsym_gives_are_named(how: str, tmp_path: Path) -> None:
    program = built("given.c", GIVEN, "-ldl")
    report, output = recorded(tmp_path, [program, how])
    assert sum(row["count"] for row in rows_of(report, "given.c")) == 2  # of 32
    assert report["state"] == "partial"
    assert unseen(report) == ["not seen: calls of malloc through pointers that dlsym gave to given"]
    assert "keep another" in output


def test_other_pointers_that_dlsym_gives_are_not_named(tmp_path: Path) -> None:
    report, output = recorded(tmp_path, [built("given.c", GIVEN, "-ldl"), "other"])
    assert_same(report, output, "given.c")
    assert (report["state"], unseen(report)) == ("complete", [])


def test_a_pointer_to_the_program_s_own_stub_is_seen(tmp_path: Path) -> None:
    # the address of malloc is the program's stub, and dlsym answers with the stub, too
    program = built("given.c", GIVEN, "-ldl", "-no-pie", "-fno-pic")
    report, output = recorded(tmp_path, [program, "default"])
    assert sum(row["count"] for row in rows_of(report, "given.c")) == 32
    assert (report["state"], unseen(report)) == ("complete", [])
    assert "keep one" in output
    report, _ = recorded(tmp_path, [program, "handle"])
    assert sum(row["count"] for row in rows_of(report, "given.c")) == 2
    assert (report["state"], len(unseen(report))) == ("partial", 1)


WRAPPER = """
#include <dlfcn.h>
void *malloc(size_t size)
{
    static void *(*next)(size_t);
    if (!next)
        next = dlsym(RTLD_NEXT, "malloc");
    return next(size);
}
"""


def test_a_library_that_wraps_malloc_hides_no_block(tmp_path: Path) -> None:
    wrapper = built("wrapper.c", WRAPPER, "-shared", "-fPIC", "-ldl")
    preloaded = ["env", f"LD_PRELOAD={wrapper}", built("every.c", EVERY)]
    report, output = recorded(tmp_path, preloaded)
    assert_same(report, output, "every.c")
    assert (report["state"], unseen(report)) == ("complete", [])
