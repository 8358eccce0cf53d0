# SPDX-License-Identifier: Apache-2.0
"""Libraries that are loaded one after the other at one place: whose the calls of each are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.run import run, soscope
from tests.support.targets.build import made_in

LIBRARY = """\
#include <stdio.h>
__attribute__((noinline)) int NAME_leaf(int x) { return x * 3 + 1; }
int work(int n) { int s = 0; for (int i = 0; i < n; i++) s += NAME_leaf(i); return s & 7; }
__attribute__((destructor)) static void bye(void) { puts("NAME goes"); fflush(stdout); }
"""
PROGRAM = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static void *place;
static int use(const char *path, int n, int keeps)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*work)(int) = (int (*)(int))dlsym(library, "work");
	Dl_info info;
	if (dladdr((void *)work, &info) && place && place != info.dli_fbase)
		exit(9);  // not where the first one was: nothing would be tested
	place = info.dli_fbase;
	printf("%d\\n", work(n));
	return keeps ? 0 : dlclose(library);
}
int main(int argc, char **argv)
{
	if (use("./one.so", 3, 0) || use("./two.so", 50, 0) || use("./one.so", 400, 0))
		return 8;
	return argc > 1 ? use("./two.so", 1000, argv[1][0] == 'k') : 3;
}
"""


@pytest.fixture(scope="module", params=["-finstrument-functions", "-pg"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("closed")
    how = ["-O1", "-g", "-fno-inline", request.param, "-fPIC", "-shared"]
    for name in ("one", "two"):
        (folder / f"{name}.c").write_text(LIBRARY.replace("NAME", name))
        made_in(folder, "gcc", *how, f"{name}.c", "-o", f"{name}.so")
    (folder / "main.c").write_text(PROGRAM)
    made_in(folder, "gcc", "-O1", "main.c", "-o", "main")
    return folder


def calls(
    folder: Path, mode: str, *options: str, argument: str = "again"
) -> dict[tuple[str, str], int]:
    words = ["prof", "run", "-q", *options, "--mode", mode, "--json", "--", "./main", argument]
    done = soscope(*words, cwd=folder)
    plain = run(["./main", argument], cwd=folder)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert plain.stdout.count("goes") == 4
    said: dict[str, Any] = json.loads(done.stderr)
    assert said["totals"]["dropped"] == 0
    return {(row["image"], row["symbol"]): row["calls"] for row in said["functions"]}


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", ["count", "time", "log"])
def test_each_library_has_its_own_calls(folder: Path, mode: str) -> None:
    seen = calls(folder, mode)
    assert seen["one.so", "one_leaf"] == 403
    assert seen["two.so", "two_leaf"] == 1050
    assert (seen["one.so", "work"], seen["two.so", "work"]) == (2, 2)
    assert not [name for image, name in seen if name == "?"]


def test_forked_children_share_records_and_names_are_still_right(folder: Path) -> None:
    seen = calls(folder, "count", "-f")
    assert seen["one.so", "one_leaf"] == 403
    assert seen["two.so", "two_leaf"] == 1050


def test_one_that_is_still_open_has_its_own_calls_in_programs_that_are_followed(
    folder: Path,
) -> None:
    seen = calls(folder, "count", "-f", argument="keep")
    assert (seen["one.so", "one_leaf"], seen["two.so", "two_leaf"]) == (403, 1050)
    assert not [name for image, name in seen if name == "?"]
