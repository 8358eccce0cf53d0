# SPDX-License-Identifier: Apache-2.0
"""`soscope mem where` and `mem trim`, beside what programs and the kernel say themselves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration import loaders
from tests.support.machines.tools import need, not_here
from tests.support.processes.others import assert_refused
from tests.support.processes.resolving import made
from tests.support.targets import memory
from tests.support.targets.memory import Told, asked, resident, running
from tests.support.time import progress
from tests.support.time.patience import limit, until

MIB = 1 << 20
KINDS = {"objects", "blocks", "free", "files", "stacks", "shared", "huge", "other"}
MEMBERS = [
    *("schema", "pid", "rss", "parts", "arenas", "allocator", "trim", "pin"),
    *("verdict", "why", "next"),
]
WAITING = ["arenas", "pinned", "holes", "handed", "kinds", "foreign", "fast", "scattered"]
KEEPING = set(WAITING) - {"kinds", "scattered"}


def near(number: int, truth: int, share: float, least: int = 0) -> bool:
    return abs(number - truth) <= max(share * truth, least)


def look(told: Told, *words: str) -> dict[str, object]:
    """Look at a program that stands still: the sum is its RSS, which the look leaves as it is."""
    until(lambda: progress.state(told.pid) == "S", "it stands still", running=told.process)
    before = told.rss
    document = asked("where", told.pid, *words)
    assert told.rss == before
    assert document["rss"] == before
    assert sum(part["bytes"] for part in document["parts"]) == before
    assert {part["what"] for part in document["parts"]} <= KINDS
    assert all(part["bytes"] > 0 for part in document["parts"])
    return document


def grown(told: Told) -> dict[str, Any]:
    """Look at a program for a time in which it has grown enough to judge by."""

    def judged() -> dict[str, Any] | None:
        document = asked("where", told.pid, "--duration", "2s")
        return document if document["verdict"] != "unknown" else None

    return until(judged, "it grows", running=told.process)


# ---- glibc ----


@pytest.mark.every(3)
@pytest.mark.parametrize("mode", WAITING)
def test_it_adds_up_and_agrees_with_mallinfo(mode: str) -> None:
    with running(memory.target(), mode) as told:
        document = look(told)
        arena, in_use, free, _, mapped = told.mallinfo
        arenas = document["arenas"]
        assert isinstance(arenas, list)
        assert sum(each["in_use"] for each in arenas) == in_use
        assert sum(each["free"] + each["top"] for each in arenas) == free
        assert sum(sum(each[key] for key in ("in_use", "free", "top")) for each in arenas) == arena
        assert list(document) == MEMBERS
        assert (document["schema"], document["pid"]) == ("soscope/mem-where/1", told.pid)
        assert document["allocator"] == "glibc"
        # whole pages of mapped blocks are resident: the program has written them
        in_pages = resident(document, "blocks", "mapped by malloc")
        assert near(in_pages, mapped, 0.02), (in_pages, mapped)
        assert document["verdict"] == ("retention" if mode in KEEPING else "unknown")
        assert document["next"]


@pytest.mark.every(4)
@pytest.mark.parametrize("mode", WAITING)
def test_the_forecast_comes_true(mode: str) -> None:
    with running(memory.target(), mode) as told:
        forecast = asked("where", told.pid)["trim"]
        done = asked("trim", told.pid)
        assert done["schema"] == "soscope/mem-trim/1"
        assert near(forecast, done["given_back"], 0.1, 64 << 10), (forecast, done)
        assert done["rss_after"] == told.rss
        assert asked("where", told.pid)["trim"] <= 64 << 10
        assert told.process.stdin is not None
        told.process.stdin.write("\n" * 9)  # and it goes on to its end
        told.process.stdin.close()
        assert told.process.wait(limit()) == 0


def test_what_pins_the_top_is_named() -> None:
    with running(memory.target(), "pinned") as told:
        pin = look(told)["pin"]
        assert told.pin is not None
        assert pin == {"addr": hex(told.pin[0]), "bytes": told.pin[1]}


def test_fast_bins_and_caches_are_free() -> None:
    with running(memory.target(), "fast") as told:
        document = look(told)
        assert resident(document, "free", "main arena") > 1.5 * MIB
        # three sizes of seven blocks: 80, 96 and 112 bytes with their heads
        assert resident(document, "free", "tcache") == 7 * (80 + 96 + 112)


def test_each_kind_of_memory_has_its_place() -> None:
    with running(memory.target(), "kinds") as told:
        document = look(told)
        assert near(resident(document, "shared"), 3 * MIB, 0.01)
        assert near(resident(document, "other", "anonymous"), 5 * MIB, 0.02)
        assert resident(document, "stacks") >= 2 * MIB
        assert resident(document, "files", "libc.so.6") > 0.5 * MIB
        assert resident(document, "files", "where") > 0


def test_stacks_of_threads_and_of_ended_ones() -> None:
    with running(memory.target(), "arenas") as told:
        living = resident(look(told), "stacks", "threads'")
        assert living >= 6 * 8192
        assert told.process.stdin is not None
        told.process.stdin.write("\n")
        told.process.stdin.flush()
        later = Told(told.process)
        document = look(later)
        assert resident(document, "stacks", "ended threads'") > 0
        arenas = document["arenas"]
        assert isinstance(arenas, list)
        assert sum(each["in_use"] for each in arenas) == later.mallinfo[1]


def test_a_static_program() -> None:
    with running(memory.target("gcc", "-static"), "pinned") as told:
        document = look(told)
        arenas = document["arenas"]
        assert isinstance(arenas, list)
        assert sum(each["in_use"] for each in arenas) == told.mallinfo[1]
        assert document["allocator"] == "glibc"
        assert document["verdict"] == "retention"
        refused = memory.soscope("trim", "-p", str(told.pid))
        assert refused.returncode == 1
        assert "statically linked" in refused.stderr
        assert document["next"] == ["a call of malloc_trim(0) in the program after each peak"]


def test_what_leaks_in_a_static_program_is_for_another_link() -> None:
    with running(memory.target("gcc", "-static"), "leak_malloc") as told:
        document = grown(told)
        assert document["verdict"] == "leak", document
        assert [step.partition(" ")[0] for step in document["next"]] == ["linked"]


def test_a_heap_that_never_rests_is_read_whole() -> None:
    with running(memory.target(), "busy") as told:
        document = asked("where", told.pid)
        said = memory.soscope("where", "-p", str(told.pid)).stdout
    assert sum(part["bytes"] for part in document["parts"]) == document["rss"]
    # 5000 blocks a thread, of 1516 bytes on average and their heads
    used = sum(each["in_use"] for each in document["arenas"])
    assert near(used, 3 * 5000 * (1516 + 16), 0.1), document["arenas"]
    assert "moved each time" not in said


@pytest.mark.every(3)
@pytest.mark.parametrize("suite", [*loaders.SUITES, "forky"])  # 2.43 has no fast bins
def test_other_releases_of_glibc(suite: str) -> None:
    loader = loaders.Loader(suite)
    text = memory.SOURCE.read_text()
    if suite == "bullseye":  # mallinfo2 is younger
        text = text.replace("mallinfo2", "mallinfo").replace("%zu %zu %zu", "%d %d %d")
        text = text.replace('%zu %zu\\n"', '%d %d\\n"', 1)
    flags = ["-nodefaultlibs", str(loader.library("libc.so.6"))]
    flags += [str(loader.library("libpthread.so.0")), "-l:libc_nonshared.a", "-lgcc"]
    flags += [str(loader.library(loaders.LOADER)), f"-Wl,-rpath,{loader.folder}"]
    flags += ["-w", f"-Wl,--dynamic-linker={loader.library(loaders.LOADER)}"]
    program = made("where", text, *flags)
    for mode in ("arenas", "pinned", "fast", "kinds"):
        with running(program, mode) as told:
            document = look(told)
            arenas = document["arenas"]
            assert isinstance(arenas, list)
            assert sum(each["in_use"] for each in arenas) == told.mallinfo[1]
            assert sum(each["free"] + each["top"] for each in arenas) == told.mallinfo[2]
            forecast, done = document["trim"], asked("trim", told.pid)
            assert near(int(str(forecast)), done["given_back"], 0.1, 64 << 10)
            if mode == "fast":
                cached = 16 if suite == "forky" else 7  # chunks of one size
                assert resident(document, "free", "tcache") == cached * (80 + 96 + 112)


# ---- what grows ----


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("mode", "verdict"),
    [("leak_malloc", "leak"), ("leak_mmap", "leak"), ("grow_free", "retention")],
)
def test_what_grows_gives_the_verdict(mode: str, verdict: str) -> None:
    with running(memory.target(), mode) as told:
        once = asked("where", told.pid)
        assert once["verdict"] != "leak"
        document = grown(told)
        assert document["verdict"] == verdict, document
        assert near(sum(part["bytes"] for part in document["parts"]), document["rss"], 0.01)


def test_objects_of_python_that_stay() -> None:
    with running(sys.executable, "-c", memory.LEAKING_PYTHON) as told:
        document = grown(told)
        assert document["verdict"] == "leak", document
        assert resident(document, "objects") > 0


def test_a_program_that_stays_as_it_is_does_not_leak() -> None:
    with running(memory.target(), "kinds") as told:
        document = asked("where", told.pid, "--duration", "1s")
        assert document["verdict"] == "unknown"


# ---- CPython ----


@pytest.mark.parametrize("python", [sys.executable, "/usr/bin/python3"])
def test_pools_of_python_are_counted_as_python_counts(python: str) -> None:
    with running(need(python), "-c", memory.EMPTIED_PYTHON) as told:
        document = look(told)
        assert document["verdict"] == "retention"
        told.process.stdin.close() if told.process.stdin else None
        assert told.process.stderr is not None
        said = told.process.stderr.read()
    rows = re.findall(r"^ *\d+ +(\d+) +\d+ +(\d+) +\d+$", said, re.MULTILINE)
    used = sum(int(size) * int(blocks) for size, blocks in rows)
    assert near(resident(document, "objects"), used, 0.02), (document["parts"], used)


# ---- other allocators ----


def test_jemalloc_is_named_and_not_read() -> None:
    with running(memory.target(), "arenas", env=memory.jemalloc()) as told:
        document = look(told)
        assert document["allocator"] == "jemalloc"
        assert document["verdict"] == "unknown"
        assert "jemalloc" in str(document["why"])
        done = memory.soscope("trim", "-p", str(told.pid))
        assert done.returncode == 1
        assert "its allocator is jemalloc" in done.stderr


UNKNOWN_HEAP = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    char *gone = malloc(2000), *kept = malloc(3000);
    free(gone);
    char *bin = *(char **)gone; /* of main_arena */
    for (char **word = (char **)bin; (char *)word < bin + 2200; word++)
        if (*word == bin - 96 || *word == bin - 8)
            *word = NULL; /* its `next`, by which arenas are a ring */
    puts(kept ? "ready" : "");
    fflush(stdout);
    pause();
    return 0;
}
"""


def test_a_heap_of_glibc_that_is_not_known_is_named_as_not_read() -> None:
    program = made("unknown_heap", UNKNOWN_HEAP)
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            document = asked("where", process.pid)
        finally:
            process.kill()
    assert (document["allocator"], document["arenas"], document["trim"]) == ("glibc", [], None)
    assert document["verdict"] == "unknown"
    assert "not laid out as in any release" in document["why"]


UNUSED_HEAP = """
#include <unistd.h>
int main(void) { return write(1, "ready\\n", 6) != 6 || pause(); }
"""


def test_malloc_that_nobody_called_gives_nothing_back() -> None:
    program = made("unused_heap", UNUSED_HEAP)
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            document = asked("where", process.pid)
        finally:
            process.kill()
    assert (document["allocator"], document["arenas"], document["trim"]) == ("glibc", [], 0)
    assert "0 B are in use and 0 B are kept free" in document["why"]


def test_musl_adds_up() -> None:
    need("musl-gcc")
    with running(memory.target("musl-gcc"), "kinds") as told:
        document = look(told)
        assert document["allocator"] == "musl"
        assert document["arenas"] == []
        assert document["trim"] is None


RESERVES = """
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    size_t size = 32ul << 40, guard = 4096;
    char *all = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED || mprotect(all + guard, size - guard, PROT_READ | PROT_WRITE))
        return 2;
    for (int i = 0; i < 1000; i++)
        all[(size_t)i << 34 | guard] = 1;
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
"""


def test_terabytes_that_are_hardly_touched() -> None:
    """As sanitizers map them: above pages that may not be touched, as the stack of a thread is."""
    program = made("reserves", RESERVES)
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                not_here("the kernel maps no terabytes")
            document = asked("where", process.pid)
        finally:
            process.kill()
    other = [part for part in document["parts"] if part["what"] == "other"]
    assert sum(part["bytes"] for part in other) >= 1000 * 4096


# ---- for people, and what cannot be looked at ----


def test_the_report_for_people_adds_up() -> None:
    with running(memory.target(), "pinned") as told:
        said = memory.soscope("where", "-p", str(told.pid)).stdout
    rows = re.findall(r"^ *([\d.,]+) +([\d.]+)  (\S.*)$", said, re.MULTILINE)
    total = float(next(row[0] for row in rows if row[2] == "RSS"))
    kinds = [float(size) for size, _, what in rows if what != "RSS"]
    assert abs(sum(kinds) - total) < 0.1
    assert "retention: " in said
    assert "pins the top of the heap" in said


def test_a_kernel_thread_has_no_memory() -> None:
    done = memory.soscope("where", "-p", "2")
    if Path("/proc/2/comm").read_text() != "kthreadd\n":
        not_here("process 2 is no kernel thread")
    assert done.returncode == 1
    assert "is a kernel thread: it has no memory" in done.stderr


def test_a_program_of_32_bits_is_summed_up_and_its_heap_named_as_not_read() -> None:
    with running(memory.target("gcc", "-m32"), "kinds") as told:
        document = look(told)
        assert "32-bit" in str(document["why"])
        assert document["arenas"] == []


def test_somebody_elses_process_is_refused() -> None:
    nobody = 65534
    if os.geteuid():
        not_here("it takes root to become somebody else")
    with running(memory.target(), "kinds") as told:
        done = subprocess.run(
            [sys.executable, "-m", "soscope", "mem", "where", "-p", str(told.pid)],
            capture_output=True,
            text=True,
            user=nobody,
            group=nobody,
            extra_groups=[],
            timeout=limit(),
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert_refused(done, "it belongs to user root")
