# SPDX-License-Identifier: Apache-2.0
"""`soscope mem run --blocks` beside allocators that call each other or are left early."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.targets import build
from tests.support.targets.accounts import FLAGS, recorded

MODES = ["exact", "sample=1", "sample=64k", "count"]

# operator new takes its blocks from an array: a slot of malloc is never called
POOL = """
#include <cstddef>
#include <new>
static char pool[1 << 22];
static size_t used;
void *operator new(size_t size)
{
    void *made = pool + used % (1 << 21);
    used += (size + 15) & ~(size_t)15;
    return made;
}
void operator delete(void *) noexcept {}
void operator delete(void *, size_t) noexcept {}
"""

# operator new needs more stack than most functions have until it calls malloc, and delete does
DEEP = """
#include <cstdio>
#include <cstdlib>
#include <new>
void *operator new(size_t size)
{
    char text[3000];
    snprintf(text, sizeof text, "new %zu", size);
    void *made = malloc(size);
    return text[0] == 'n' ? made : NULL;
}
void operator delete(void *block) noexcept
{
    char text[3000];
    snprintf(text, sizeof text, "delete %p", block);
    if (text[0] == 'd')
        free(block);
}
void operator delete(void *block, size_t) noexcept { operator delete(block); }
"""

# Both functions leave the words of the stack alone that are theirs and that they do not use, so
# the return address of the call in `before` is still there when `after` calls malloc below it.
PROGRAM = """
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <new>
static void *volatile kept;
static jmp_buf back;
struct Thing { char bytes[24]; };
static void leave(void) { longjmp(back, 1); }
__attribute__((noinline)) static void before(const char *way)
{
    char room[2048];
    __asm__ volatile("" : : "r"(room) : "memory");
    if (!strcmp(way, "returns"))
        kept = new Thing;
    else
        kept = new char[(size_t)1 << 62];
}
__attribute__((noinline)) static void after(size_t size)
{
    char room[2048 + 64];
    __asm__ volatile("" : : "r"(room) : "memory");
    kept = malloc(size); /* after */
}
int main(int argc, char **argv)
{
    if (!strcmp(argv[1], "jumps"))
        std::set_new_handler(leave);
    for (int i = 0; i < 2000; i++) {
        try {
            if (!setjmp(back))
                before(argv[1]);
        } catch (const std::bad_alloc &) {
        }
        after(4096);
    }
    return 0;
}
"""

MANY = """
struct thing { char bytes[100]; };
int main()
{
    static thing *all[1000];
    for (int i = 0; i < 1000; i++)
        all[i] = new thing;
    for (int i = 0; i < 900; i++)
        delete all[i];
    return 0;
}
"""


def built(folder: Path, program: str, library: str = "", *flags: str) -> str:
    """Build a program, and the library that it takes its operator new from."""
    (folder / "program.cc").write_text(program)
    words: list[str] = []
    if library:
        (folder / "library.cc").write_text(library)
        own = ["-O2", "-shared", "-fPIC", "-fno-builtin", *flags]
        build.made_in(folder, "g++", *own, "-o", "library.so", "library.cc")
        words = ["./library.so", "-Wl,-rpath,$ORIGIN"]
    build.made_in(folder, "g++", "-O2", "-g", *FLAGS, "-o", "program", "program.cc", *words)
    return str(folder / "program")


def by_api(report: dict[str, Any]) -> Counter[str]:
    """Return how many blocks are alive, by the function that made them."""
    found: Counter[str] = Counter()
    for row in report["native"]:
        found[row["api"]] += row["count"]
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["returns", "throws", "jumps"])
def test_a_call_that_is_over_has_no_share_in_later_ones(
    way: str, mode: str, tmp_path: Path
) -> None:
    command = [built(tmp_path, PROGRAM, POOL if way == "returns" else ""), way]
    report, _ = recorded(tmp_path, command, "--mode", mode)
    rows = [row for row in report["native"] if row["api"] == "malloc"]
    if mode == "count":
        found = sum(row["count"] for row in rows if row["sizes"][1] == 4096)
        assert found == 2000
    else:
        lines = [i for i, line in enumerate(PROGRAM.splitlines(), 1) if "/* after */" in line]
        rows = [row for row in rows if row["frames"][0]["line"] in lines]
        error = sum(row["error_bytes"] or 0 for row in rows)
        assert abs(sum(row["bytes"] for row in rows) - 2000 * 4096) <= 3 * error
    assert "operator new[]" not in by_api(report)


@pytest.mark.parametrize("flag", ["-fomit-frame-pointer", "-fno-omit-frame-pointer"])
@pytest.mark.parametrize("mode", ["exact", "sample=1", "count"])
def test_a_call_from_deep_below_another_is_about_the_same_block(
    mode: str, flag: str, tmp_path: Path
) -> None:
    report, _ = recorded(tmp_path, [built(tmp_path, MANY, DEEP, flag)], "--mode", mode)
    assert by_api(report)["operator new"] == 100
    totals = report["totals"]["native"]
    if mode != "sample=1":
        assert totals["frees"] in (900, 901)
    assert totals["allocations"] - totals["frees"] == totals["live"]
    assert totals["live"] < 110  # libstdc++ keeps some of its own
    assert totals["allocations"] < 1020


NO_TABLES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"]


@pytest.mark.parametrize("mode", ["exact", "count"])
def test_an_allocator_without_tables_has_no_blocks_that_are_none(mode: str, tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built(tmp_path, MANY, DEEP, *NO_TABLES)], "--mode", mode)
    assert by_api(report)["operator new"] == 100
    assert report["totals"]["native"]["live"] < 110
    near = DEEP.replace("text[3000]", "text[300]")
    report, _ = recorded(tmp_path, [built(tmp_path, MANY, near, *NO_TABLES)], "--mode", mode)
    assert report["totals"]["native"]["live"] < 110
    assert report["totals"]["native"]["allocations"] < 1020


# operator new keeps a small block for itself, made by malloc
KEEPS = """
#include <cstdlib>
#include <new>
static void *volatile own;
void *operator new(size_t size)
{
    own = malloc(8);
    return malloc(size);
}
void operator delete(void *block) noexcept { free(block); }
void operator delete(void *block, size_t) noexcept { free(block); }
"""


def test_a_smaller_block_of_an_allocator_is_sampled_with_its_own_stack(tmp_path: Path) -> None:
    command = [built(tmp_path, MANY, KEEPS)]
    report, _ = recorded(tmp_path, command, "--mode", "sample=1")
    assert by_api(report)["operator new"] == 100
    (own,) = (row for row in report["native"] if row["bytes"] == 8 * 1000)
    assert own["api"] == "malloc"
    names = [frame["symbol"] for frame in own["frames"]]
    assert names[1] == "main"
    counted, _ = recorded(tmp_path, command, "--mode", "count")
    assert counted["totals"]["native"]["live"] == report["totals"]["native"]["live"]
