# SPDX-License-Identifier: Apache-2.0
"""What children do leaves their parent's records as they are, and theirs are their own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines.tools import need
from tests.support.processes import tracing
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.build import made_in
from tests.support.targets.matrix import Cell
from tests.support.truth.account import Truth

WAYS = ("fork", "vfork", "exec", "dlopen", "probe", "strict")
# No linker's stub in front of calls, or one that other words lead to
NO_STUBS = {
    "gcc": Cell(binding="no-plt"),
    "clang": Cell("clang", "no-plt"),
    "lld": Cell("clang", "no-plt", "nopie", "lld"),
    "mold": Cell(binding="no-plt", linker="mold", opt="O0"),
}


def calls(
    folder: Path, *command: str, select: str, options: tuple[str, ...] = ()
) -> tuple[int, list[dict[str, Any]], list[tuple[Any, ...]]]:
    """Trace a command that ends well; return its pid, its calls, and what it says it did."""
    output, facts = folder / "output", folder / "truth"
    words = [*tracing.SOSCOPE, "-q", "--json", "-o", str(output), *options, "-e", select, "--"]
    done = run([*words, *command], env={"SOSC_TRUTH": str(facts)})
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in output.read_text().splitlines()]
    [first] = [event["pid"] for event in events if event.get("event") == "start"]
    found = [event for event in events if event["type"] == "call"]
    return first, found, list(Truth.read(facts).facts)


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["followed", "alone"])
@pytest.mark.parametrize("way", WAYS)
def test_a_parent_is_recorded_as_without_children(way: str, how: str, tmp_path: Path) -> None:
    """Its strings are read, its threads have ids, and only its own calls are its."""
    assert_own_calls(build.program("children"), way, how, tmp_path)


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["followed", "alone"])
@pytest.mark.parametrize("way", ["vfork", "exec", "probe", "strict"])
@pytest.mark.parametrize("cell", NO_STUBS)
def test_children_without_stubs_are_seen_as_well(
    cell: str, way: str, how: str, tmp_path: Path
) -> None:
    """vfork, prctl: no filter has to choose them, whatever way their callers go."""
    assert_own_calls(build.program("children", NO_STUBS[cell]), way, how, tmp_path)


def assert_own_calls(program: Path, way: str, how: str, tmp_path: Path) -> None:
    options = ("-f",) if how == "followed" else ()
    pid, found, facts = calls(tmp_path, str(program), way, select="f1,access", options=options)
    own = [call for call in found if call["pid"] == pid]
    made: Counter[tuple[bool, str]] = Counter()
    for name, least, _, _, role in facts:
        made[role == "main", name] += least
    assert Counter(call["symbol"] for call in own) == {
        "f1": made[True, "f1"],
        "access": made[True, "access"],
    }
    threads = {call["tid"] for call in own}  # an id may be below the process's: ids start again
    assert pid in threads
    assert len(threads) > 1
    assert all(threads)
    paths = {call["args"][0]["value"] for call in own if call["symbol"] == "access"}
    assert paths == {"/a text"}
    others = [call for call in found if call["pid"] != pid]
    assert len(others) == (made[False, "f1"] if options else 0)
    assert all(call["pid"] and call["tid"] for call in others)


@pytest.mark.parametrize("how", ["followed", "alone"])
def test_what_a_borrower_executes_ends_its_own_call(how: str, tmp_path: Path) -> None:
    """dash starts commands by vfork, whatever is chosen."""
    options = ("-f",) if how == "followed" else ()
    script = "/bin/true; /bin/true; exit 0"
    pid, found, _ = calls(
        tmp_path, need("dash"), "-c", script, select="exec*@MAIN", options=options
    )
    assert [call["pid"] == pid for call in found] == ([False] * 2 if options else [])
    assert all(call["ended"] != "unwound" for call in found)


# Its address is known, and calls go another way than looks at it.
TAKEN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t (*volatile taken)(void);

// Functions of their own: none has another's loads in its registers.
__attribute__((noinline)) static void ask(int times)
{
	while (times--)
		getppid();
}

__attribute__((noinline)) static int is_same(void)
{
	taken = vfork;
	return (void *)taken == dlsym(RTLD_DEFAULT, "vfork");
}

__attribute__((noinline)) static void borrow(void)
{
	pid_t pid = vfork();
	int status;

	if (!pid) {
		ask(2);
		_exit(0);
	}
	waitpid(pid, &status, 0);
}

int main(void)
{
	int same = 1;

	for (int i = 0; i < 3; i++) {
		same &= is_same();
		ask(1);
		borrow();
		ask(1);
	}
	return !same;
}
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("flags", ["-fplt", "-fno-plt"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_function_keeps_its_address_where_its_calls_are_seen(
    compiler: str, flags: str, tmp_path: Path
) -> None:
    source, program = tmp_path / "taken.c", tmp_path / "taken"
    source.write_text(TAKEN)
    made_in(tmp_path, compiler, "-O1", "-w", flags, source, "-o", program, "-ldl")
    pid, found, _ = calls(tmp_path, str(program), select="getppid")
    assert [call["pid"] for call in found] == [pid] * 6
    pid, found, _ = calls(tmp_path, str(program), select="getppid", options=("-f",))
    assert Counter(call["pid"] == pid for call in found) == {True: 6, False: 6}
