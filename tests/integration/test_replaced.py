# SPDX-License-Identifier: Apache-2.0
"""A library that is replaced on disk: the old one's functions keep no name of the new one's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.processes.run import soscope
from tests.support.targets.build import made_in

# What a block and a call are given says which library they are of.
LIBRARY = """\
#include <stdlib.h>
#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)
__attribute__((noinline)) int NAME(first_, WHICH)(int n) { return n FIRST + rand(); }
__attribute__((noinline)) int NAME(leaf_, WHICH)(void) { return abs(-NUMBER) + 1; }
__attribute__((noinline)) void *NAME(keep_, WHICH)(void)
{
    char *kept = malloc(NUMBER);
    kept[0] = 1;
    return kept;
}
__attribute__((noinline)) void NAME(spin_, WHICH)(void)
{
    for (volatile int i = 0; i < SPINS; i++)
        ;
}
int work(void)
{
    NAME(spin_, WHICH)();
    int sum = NAME(leaf_, WHICH)() + !NAME(keep_, WHICH)();
    sum += NAME(first_, WHICH)(sum);
    for (int i = 0; sum == 7 && i < 9; i++) // code where the other has its functions
        sum = rand() % (sum | 1) + rand() % 3 + atoi("8") * rand();
    return sum;
}
"""
PROGRAM = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    void *place = NULL;
    for (int i = 0; i < 6; i++) {
        void *library;
        if (rename(i % 2 ? "two.so" : "one.so", "library.so") ||
            !(library = dlopen("./library.so", RTLD_NOW)))
            return 8;
        void *work = dlsym(library, "work");
        Dl_info info;
        if (!dladdr(work, &info) || (place && place != info.dli_fbase))
            return 9; // not where the first one was: nothing would be tested
        place = info.dli_fbase;
        ((int (*)(void))work)();
        if (dlclose(library) || rename("library.so", i % 2 ? "two.so" : "one.so"))
            return 8;
    }
    return rename("two.so", "library.so") ? 8 : 3;
}
"""
NUMBERS = {"1001": "one", "2002": "two"}
FIRST = {"one": "* (n + 7) % 1001 / 3 * n", "two": "* 2"}  # what comes behind lies elsewhere


@pytest.fixture(params=["none", "sha1"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    how = [
        "-DSPINS=200000000",
        "-O1",
        "-g",
        "-fno-builtin",
        "-fPIC",
        "-shared",
        f"-Wl,--build-id={request.param}",
    ]
    (tmp_path / "library.c").write_text(LIBRARY)
    for number, name in NUMBERS.items():
        words = [f"-DWHICH={name}", f"-DNUMBER={number}", f"-DFIRST={FIRST[name]}"]
        made_in(tmp_path, "gcc", *how, *words, "library.c", "-o", f"{name}.so")
    (tmp_path / "main.c").write_text(PROGRAM)
    made_in(tmp_path, "gcc", "-O1", "main.c", "-o", "main")
    return tmp_path


def functions_by_call(text: str) -> dict[str, set[str]]:
    """Return which functions stand in stacks below the calls of each library."""
    named: dict[str, set[str]] = {name: set() for name in NUMBERS.values()}
    for call in text.split("library.so->abs(")[1:]:
        which = NUMBERS[call[1:5]]
        named[which].update(re.findall(r"> library\.so\((\w+)\+", call))
    return named


# The program renames the second library last: it alone is where it was.
RIGHT = {"one": set(), "two": {"leaf_two", "work"}}


def test_stacks_of_calls(folder: Path) -> None:
    words = ["-k", "--from", "all", "-e", "abs", "--", "./main"]
    done = soscope("trace", "--record", "rec", *words, cwd=folder)
    assert done.returncode == 3, done.stderr
    shown = soscope("report", "-k", "rec", cwd=folder).stdout
    assert shown.count("library.so->abs(") == 6
    assert functions_by_call(shown) == RIGHT


def test_stacks_of_blocks(folder: Path) -> None:
    done = soscope("mem", "run", "--blocks", "-o", "rec", "--", "./main", cwd=folder)
    assert done.returncode == 3, done.stderr
    document = json.loads(soscope("mem", "leaks", "--json", "rec", cwd=folder).stdout)
    named = {
        row["bytes"]: [frame["symbol"] for frame in row["frames"] if frame["image"] == "library.so"]
        for row in document["native"]
        if row["bytes"] in (3 * 1001, 3 * 2002)
    }
    assert named == {3 * 1001: [None, None], 3 * 2002: ["keep_two", "work"]}


def test_samples(folder: Path) -> None:
    done = soscope("prof", "run", "--sample", "500", "-o", "rec", "--", "./main", cwd=folder)
    assert done.returncode == 3, done.stderr
    document = json.loads(soscope("prof", "report", "--json", "rec", cwd=folder).stdout)
    samples = {row["symbol"]: row["samples"] for row in document["sampled"] if row["samples"]}
    # Both spin as long. On a busy machine soscope may be told of a library that is gone. Then these
    # samples have no name, but never a name of the other library.
    own = {row["symbol"] for row in document["sampled"] if row["image"] == "library.so"}
    assert own <= {"?", "spin_two", "keep_two", "leaf_two", "first_two", "work"}, samples
    assert sum(samples.values()) / 4 < samples["spin_two"] < 0.7 * sum(samples.values()), samples
    assert samples["?"] > sum(samples.values()) / 4, samples
