# SPDX-License-Identifier: Apache-2.0
"""Code that comes and goes at one address: each call is its own, whoever lies there later.

The program itself says which library has made a block of which size, and that all of them were
loaded at one place.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.run import run, soscope
from tests.support.targets.build import made_in

LIBRARY = """\
#include <stdlib.h>
void *volatile NAME_last;
void *work(int n) { return NAME_last = malloc(n); }
void *tail(void *(*f)(int), int n) { return f(n); }
void *around(void *(*f)(int), int n) { void *p = f(n); return NAME_last = p; }
"""
PROGRAM = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
typedef void *work_function(int);
static char *place;
static int stays; // the library is not closed
// the call returns to who has called this
__attribute__((noinline)) void *jumps(int n) { return malloc(n); }
static void use(const char *path, int n)
{
	void *library = dlopen(path, RTLD_NOW);
	work_function *work = (work_function *)dlsym(library, "work");
	void *(*around)(work_function *, int) = dlsym(library, "around");
	Dl_info info;
	if (!dladdr((void *)work, &info) || (place && place != info.dli_fbase))
		exit(9);  // not where the first one was: nothing would be tested
	place = info.dli_fbase;
	for (int i = 0; i < 10; i++)
		work(n);
	around(jumps, n + 1);
	printf("%s %d\\n", path, n);
	if (!stays)
		dlclose(library);
}
static void use_code(int n) // code that no file has, where the libraries were
{
	// sub $8,%rsp; mov $jumps,%rax; call *%rax; add $8,%rsp; ret
	unsigned char code[] = {0x48, 0x83, 0xec, 8, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0,
				0xff, 0xd0, 0x48, 0x83, 0xc4, 8, 0xc3};
	uintptr_t to = (uintptr_t)jumps;
	unsigned char *at = mmap(place, 0x4000, PROT_READ | PROT_WRITE | PROT_EXEC,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (at != (unsigned char *)place)
		exit(8);
	memcpy(code + 6, &to, 8);
	memcpy(at + 0x1100, code, sizeof(code));
	((work_function *)(at + 0x1100))(n);
	printf("code %d\\n", n);
	munmap(at, 0x4000);
}
int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	if (argc > 1 && !strcmp(argv[1], "stay")) {
		use("./one.so", 1001);
		stays = 1;
		use("./two.so", 3001);
		return 0;
	}
	if (argc > 1) { // as two children do that each have one of them
		use("./one.so", 1001);
		if (!fork()) {
			use("./two.so", 3001);
			return 0;
		}
		wait(NULL);
		return 0;
	}
	use("./one.so", 1001);
	use("./two.so", 3001);
	use("./one.so", 1001);
	use_code(5002);
	use("./two.so", 3001);
	return 0;
}
"""
ONE_AFTER_ANOTHER = {
    (1001, "one.so", "work"): 20,
    (1002, "one.so", "around"): 2,
    (3001, "two.so", "work"): 20,
    (3002, "two.so", "around"): 2,
    (5002, None, None): 1,
}
FORKED = {
    (1001, "one.so", "work"): 10,
    (1002, "one.so", "around"): 1,
    (3001, "two.so", "work"): 10,
    (3002, "two.so", "around"): 1,
}
SIZES = {1001, 1002, 3001, 3002, 5002}
Owners = Counter[tuple[int, str | None, str | None]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("same_place")
    how = ["-O2", "-g", "-fno-builtin", "-fPIC", "-shared"]
    for name in ("one", "two"):
        (folder / f"{name}.c").write_text(LIBRARY.replace("NAME", name))
        made_in(folder, "gcc", *how, f"{name}.c", "-o", f"{name}.so")
    (folder / "main.c").write_text(PROGRAM)
    made_in(folder, "gcc", "-O2", "-g", "-fno-builtin", "main.c", "-o", "main")
    return folder


def traced(folder: Path, *options: str, argv: tuple[str, ...] = ()) -> str:
    """Trace the program's mallocs; return what soscope has said."""
    words = ["trace", "-q", *options, "--from", "all", "-e", "malloc", "--", "./main", *argv]
    done = soscope(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run(["./main", *argv], cwd=folder).stdout
    return str(done.stderr)


def owners_of_lines(said: str) -> Owners:
    """Return who has called by the lines of `trace -i`, for the sizes that count."""
    owners: Owners = Counter()
    for line in said.splitlines():
        call = re.search(r"\[([^][]*)\] \S*malloc\((\d+)\)", line)
        if call is None or int(call[2]) not in SIZES:
            continue
        image, symbol, *_ = [*re.split(r"\+0x[0-9a-f]+ ?", call[1]), ""]
        known = not image.startswith("0x")
        owners[int(call[2]), image if known else None, symbol if known else None] += 1
    return owners


def owners_of_calls(said: str) -> Owners:
    """Return who has called by the objects of `trace -k --json`."""
    owners: Owners = Counter()
    for line in said.splitlines():
        call: dict[str, Any] = json.loads(line)
        if call.get("symbol") == "malloc" and call["args"][0]["value"] in SIZES:
            frame = call["stack"][0]
            owners[call["args"][0]["value"], frame["image"], frame["symbol"]] += 1
    return owners


@pytest.mark.parametrize(("argv", "right"), [((), ONE_AFTER_ANOTHER), (("fork",), FORKED)])
def test_the_caller_is_the_image_of_that_time(
    folder: Path, tmp_path: Path, argv: tuple[str, ...], right: Owners
) -> None:
    file = str(tmp_path / "run.sosr")
    assert owners_of_lines(traced(folder, "-f", "-i", argv=argv)) == right
    traced(folder, "-f", "-k", "--record", file, argv=argv)
    assert owners_of_lines(soscope("report", "-i", file, cwd=folder).stdout) == right
    assert owners_of_calls(soscope("report", "-k", "--json", file, cwd=folder).stdout) == right


@pytest.mark.parametrize("engine", [("--engine", "sites", "-e"), ("-x",)])
@pytest.mark.parametrize(("argv", "right"), [((), ONE_AFTER_ANOTHER), (("fork",), FORKED)])
def test_breakpoints_see_what_comes_in_the_place_of_another(
    folder: Path, engine: tuple[str, ...], argv: tuple[str, ...], right: Owners
) -> None:
    *options, select = engine
    words = ["trace", "-q", "-f", "-i", *options, "--from", "all", select, "malloc"]
    if select == "-x":
        words.remove("--from")
        words.remove("all")
    done = soscope(*words, "--", "./main", *argv, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert owners_of_lines(done.stderr) == right


def test_functions_are_those_of_the_image_that_is_there(folder: Path) -> None:
    words = ["trace", "-q", "-c", "-x", "work", "-x", "around", "--json", "--", "./main"]
    done = soscope(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stderr)["rows"]
    assert {(row["callee"], row["symbol"]): row["calls"] for row in rows} == {
        ("one.so", "work"): 20,
        ("two.so", "work"): 20,
        ("one.so", "around"): 2,
        ("two.so", "around"): 2,
    }


@pytest.mark.parametrize("way", ["count", "time"])
def test_arcs_begin_in_no_image_that_came_later(folder: Path, way: str) -> None:
    words = ["prof", "run", "-q", "--boundary", way, "-l", "libc.so.6", "--json", "--", "./main"]
    done = soscope(*words, "stay", cwd=folder)
    assert done.returncode == 0, done.stderr
    calls: Counter[tuple[str | None, str | None]] = Counter()
    for arc in json.loads(done.stderr)["arcs"]:
        if arc["callee"] == "malloc" and arc["caller_image"] in ("one.so", "two.so", "main"):
            calls[arc["caller_image"], arc["caller"]] += arc["calls"]
    # calls whose site is not in the image of the slot: several had that place in turn
    assert calls == {("one.so", "work"): 10, ("two.so", "work"): 10, ("main", ""): 2}


@pytest.mark.parametrize("how", [(), ("--aggregate",), ("--mode", "sample=16")])
def test_blocks_are_those_of_the_image_that_made_them(folder: Path, how: tuple[str, ...]) -> None:
    done = soscope("mem", "run", "-f", "--blocks", *how, "--json", "--", "./main", cwd=folder)
    assert done.returncode == 0, done.stderr
    rows: Owners = Counter()
    for row in json.loads(done.stderr)["native"]:
        size, *rest = divmod(row["bytes"], row["count"])
        if size in SIZES:
            assert rest == [0]
            rows[size, row["frames"][0]["image"], row["frames"][0]["symbol"]] += row["count"]
    assert rows == ONE_AFTER_ANOTHER


def test_exports_have_the_image_of_that_time(folder: Path, tmp_path: Path) -> None:
    recording, exported = str(tmp_path / "run.sosr"), tmp_path / "run.folded"
    traced(folder, "-k", "--record", recording)
    done = soscope("export", "--format", "folded", "-o", str(exported), recording, cwd=folder)
    assert done.returncode == 0, done.stderr
    stacks = [line.rsplit(" ", 1)[0].split(";") for line in exported.read_text().splitlines()]
    callers = {stack[-2] for stack in stacks if stack[-1] == "libc.so.6`malloc"}
    named = {caller for caller in callers if not caller.startswith(("ld-linux", "libc", "?"))}
    assert named == {
        f"{name}.so`{symbol}" for name in ("one", "two") for symbol in ("work", "around")
    }
    assert len([caller for caller in callers if caller.startswith("?`0x")]) == 1


BURNING = """\
#include <time.h>
static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
__attribute__((noinline)) long NAME_burns(long ns)
{
	long begun = now(), spent;
	while ((spent = now() - begun) < ns)
		for (volatile int i = 0; i < 20000; i++)
			;
	return spent;
}
"""
BURNER = """\
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
	long spent[2] = {0, 0};
	void *place = 0;
	for (int i = 0; i < 24; i++) {
		void *library = dlopen(i % 2 ? "./second.so" : "./first.so", RTLD_NOW);
		long (*burns)(long) = dlsym(library, i % 2 ? "second_burns" : "first_burns");
		if (place && place != (void *)burns)
			return 9;
		place = (void *)burns;
		spent[i % 2] += burns(i % 2 ? 30000000 : 10000000);
		dlclose(library);
	}
	printf("%ld %ld\\n", spent[0], spent[1]);
	return 0;
}
"""


def test_samples_are_those_of_the_image_that_ran(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.c").write_text(BURNING.replace("NAME", name))
        made_in(tmp_path, "gcc", "-O1", "-fPIC", "-shared", f"{name}.c", "-o", f"{name}.so")
    (tmp_path / "burner.c").write_text(BURNER)
    made_in(tmp_path, "gcc", "-O1", "burner.c", "-o", "burner")
    done = soscope("prof", "run", "--sample", "997", "--json", "--", "./burner", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = map(int, done.stdout.split())
    rows = {
        (row["image"], row["symbol"]): row["samples"] for row in json.loads(done.stderr)["sampled"]
    }
    seen = rows["first.so", "first_burns"], rows["second.so", "second_burns"]
    assert seen[0] / sum(seen) == pytest.approx(first / (first + second), abs=0.1)
    assert ("first.so", "second_burns") not in rows
    assert ("second.so", "first_burns") not in rows
