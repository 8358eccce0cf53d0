# SPDX-License-Identifier: Apache-2.0
"""-fno-plt: every call is counted, or its function is named as one with a lower bound.

gcc and clang keep addresses of functions in registers over loops, and copy them from one to
another. The program's own count is the truth.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.processes import tracing
from tests.support.processes.run import run, soscope
from tests.support.targets.build import made, made_in

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long made, freed, printed;

int main(int argc, char **argv)
{
	char *p[40], line[200];
	int sum = 0;

	for (int i = 0; i < 30; i++) {
		made++;
		p[i] = malloc(10 + i);
		printed++;
		snprintf(p[i], 8, "%d", i);
	}
	for (int i = 0; i < 30; i++) {
		printed++;
		sum += snprintf(line, sizeof(line), "%s %d %d %d", p[i], i, argc, sum);
	}
	for (int i = 0; i < 30; i++) {
		if (sum++ & 1 && argv[0])
			puts(line);
		freed++;
		free(p[i]);
	}
	for (int i = 0; argc > 1 && i < 20; i++) {
		made++;
		void *more = malloc(strlen(argv[1]));
		freed++;
		free(more);
	}
	fprintf(stderr, "malloc %ld\nfree %ld\nsnprintf %ld\n", made, freed, printed);
	return 0;
}
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_calls_by_registers_are_counted_or_named(compiler: str, level: str, tmp_path: Path) -> None:
    source, program, output = tmp_path / "a.c", tmp_path / "a", tmp_path / "a.json"
    source.write_text(PROGRAM)
    words = [compiler, level, "-w", "-fno-plt", "-fno-builtin"]
    made_in(tmp_path, *words, source, "-o", program)
    options = [
        "--count-only",
        "--json",
        "-e",
        "malloc@MAIN,free@MAIN,snprintf@MAIN",
        "-o",
        str(output),
    ]
    done = run([*tracing.SOSCOPE, *options, "--", str(program), "again"])
    truth = dict(re.findall(r"^(malloc|free|snprintf) (\d+)$", done.stderr, re.MULTILINE))
    assert len(truth) == 3
    named = set(re.findall(r"\w+", "".join(re.findall(r"loaded, too\): (.*)", done.stderr))))
    document = json.loads(output.read_text())
    counted = {row["symbol"]: row["calls"] for row in document["rows"]}
    wrong = {name for name, calls in truth.items() if counted.get(name, 0) != int(calls)}
    assert wrong <= named, done.stderr
    assert set(document["images"][0]["lower_bounds"]) == named
    assert {row["symbol"] for row in document["rows"] if row["lower_bound"]} <= named
    assert {row["symbol"] for row in document["rows"]} & wrong <= {
        row["symbol"] for row in document["rows"] if row["lower_bound"]
    }
    assert document["totals"]["complete"] == (not named)
    assert done.stderr.rstrip().endswith("; not complete" if named else "from a")
    assert all(counted.get(name, 0) <= int(truth[name]) for name in truth)


LIBRARY = r"""
#include <stdlib.h>
int (*volatile taken)(int);

void take(void)
{
	taken = abs;
}

int calls(int number)
{
	return abs(number) + 1;
}
"""
LOADS = r"""
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	int (*calls)(int) = (int (*)(int))dlsym(library, "calls");

	printf("%d\n", calls(-1) + calls(-2) + calls(argc));
}
"""


def test_a_library_that_is_loaded_later_has_room_near_it(tmp_path: Path) -> None:
    """Its calls are re-aimed, at cells in reach of its code: the agent lies between others."""
    there = made(
        {"calls.c": LIBRARY, "loads.c": LOADS},
        "gcc -O1 -fno-builtin -shared -fPIC -fno-plt calls.c -o libcalls.so",
        "gcc -O1 -fno-builtin loads.c -o loads -ldl",
    )
    library, program = there / "libcalls.so", there / "loads"
    output = tmp_path / "out.json"
    options = ["--count-only", "--json", "-e", "abs", "--from", "libcalls.so", "-o", str(output)]
    done = run([*tracing.SOSCOPE, *options, "--", str(program), str(library)])
    assert (done.returncode, done.stdout) == (0, "8\n"), done.stderr
    assert json.loads(output.read_text())["totals"]["calls"] == 3, done.stderr


POINTED = r"""
#include <stdio.h>
#include <stdlib.h>

int (*pick(void))(int)
{
	return abs;
}

int main(int argc, char **argv)
{
	int (*by_pointer)(int) = pick();

	fprintf(stderr, "abs %d\n", abs(-argc) + by_pointer(-1) + (argv[1] ? abs(-9) : 0));
	return 0;
}
"""


def test_a_pointer_that_is_made_beside_a_stub_is_named() -> None:
    """The stub shows its calls, and the slot gives the address away: there may be more."""
    commands = {
        "stub": "gcc -O1 -fno-builtin -fPIC pointed.c -o stub",
        "calls": "gcc -O1 -fno-builtin -fPIC -fno-plt pointed.c -o calls",
        "canonical": "gcc -O1 -fno-builtin -fno-pic -no-pie pointed.c -o canonical",
    }
    there = made({"pointed.c": POINTED}, *commands.values())
    for name in commands:
        done = run([*tracing.SOSCOPE, "--count-only", "-e", "abs", "--", str(there / name)])
        assert "abs 2" in done.stderr
        calls = int(re.findall(r"soscope: (\d) calls? through", done.stderr)[0])
        is_named = "counts are lower bounds" in done.stderr
        assert calls == 2 or is_named, (name, done.stderr)
        assert done.stderr.rstrip().endswith("; not complete") == is_named, (name, done.stderr)


TABLE = """
#include <stdio.h>
#include <string.h>
static int ours(const char *a, const char *b) { return a == b; }
static int (*volatile chosen[])(const char *, const char *) = {WHICH, ours};
int main(void)
{
	int calls = 0;
	for (int i = 0; i < 4; i++)
		calls += chosen[i & 1]("a", "b") < 2;
	printf("%d\\n", calls);
	return 0;
}
"""


@pytest.mark.parametrize(
    ("which", "words", "said"),
    [
        ("strcmp", [], "not seen: calls of strcmp by pointers in the data of program"),
        ("strcmp", ["-e", "strcmp,printf"], "not seen: "),  # with what libc calls itself
        ("strcmp", ["-l", "libm.so.6", "-e", "printf"], "nothing was hooked"),
        ("ours", [], "complete: all calls from program"),
    ],
)
def test_a_table_of_functions_in_the_data(
    tmp_path: Path, which: str, words: list[str], said: str
) -> None:
    """The loader writes their addresses there; calls by them go through no slot."""
    source = tmp_path / "program.c"
    source.write_text(TABLE.replace("WHICH", which))
    made_in(tmp_path, "gcc", "-O1", "-fno-builtin", source, "-o", "program")
    done = soscope("trace", *words, "--", tmp_path / "program")
    assert (done.returncode, done.stdout) == (0, "4\n")
    assert said in done.stderr
    assert ("complete: " in done.stderr) == (which == "ours")
