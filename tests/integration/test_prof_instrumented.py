# SPDX-License-Identifier: Apache-2.0
"""Calls that instrumented code reports are counted as the program counts them itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import reported
from tests.support.processes.run import run
from tests.support.targets.build import made
from tests.support.time.patience import limit

LIBRARY = "libreported.so"
NAMES = ("leaf", "mid", "fib", "even", "odd")
WAYS = [
    ("gcc", "cyg", "-O0"),  # one enter for each call: nothing is put into its caller
    ("gcc", "pg", "-O0"),
    ("gcc", "fentry", "-O0"),
    ("clang", "cyg", "-O2"),
    ("clang", "pg", "-O2"),
    ("clang", "fentry", "-O2"),
]


def own_counts(account: reported.Account) -> dict[int, dict[str, int]]:
    rows = [json.loads(line) for line in account.out.splitlines()]
    return {row["tid"]: {name: row[name] for name in NAMES} for row in rows}


def self_ticks(nodes: list[dict[str, Any]], at: int) -> int:
    """Add up what a node and all below it took themselves."""
    below = [index for index, node in enumerate(nodes) if node["parent"] == at]
    return int(nodes[at]["self"]) + sum(self_ticks(nodes, index) for index in below)


@pytest.mark.covering(1)
@pytest.mark.parametrize(("compiler", "hooks", "opt"), WAYS, ids=lambda word: word)
@pytest.mark.parametrize("mode", ["count", "time", "log"])
def test_calls_are_those_that_threads_count_themselves(
    mode: str, compiler: str, hooks: str, opt: str
) -> None:
    command = reported.program("reported", hooks, compiler, opt)
    account = reported.observe(mode, [*command, "200", "2"])
    assert account.status == 3
    truth = own_counts(account)
    assert len(truth) == 2
    for tid, counts in truth.items():
        seen = account.calls(LIBRARY, tid)
        assert {name: seen.get(name) for name in NAMES} == counts
    assert all(thread["dropped"] == thread["left"] == 0 for thread in account.threads)
    for thread in account.threads if mode != "count" else ():
        nodes = thread["nodes"]
        assert all(node["timed"] == node["calls"] for node in nodes)
        roots = [at for at, node in enumerate(nodes) if node["parent"] < 0]
        # each tick of a root is some node's own
        assert [self_ticks(nodes, at) for at in roots] == [nodes[at]["total"] for at in roots]


@pytest.mark.every(5)
@pytest.mark.parametrize("hooks", ["cyg", "pg"])
@pytest.mark.parametrize("mode", ["count", "time", "sample", "log"])
def test_no_call_of_many_threads_is_lost(mode: str, hooks: str) -> None:
    command = reported.program("reported", hooks, "gcc", "-O0")
    times = 800_000 if mode == "count" else 100_000
    account = reported.observe(mode, [*command, str(times), "4"], timeout=limit(120))
    for tid, counts in own_counts(account).items():
        assert {name: account.calls(LIBRARY, tid).get(name) for name in NAMES} == counts


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", ["count", "time", "log"])
def test_a_program_s_own_hook_is_called_as_well(mode: str) -> None:
    account = reported.observe(mode, [*reported.program("reported", "bare", "clang"), "200"])
    truth, hooks = map(json.loads, account.out.splitlines())
    counts = {name: truth[name] for name in NAMES}
    assert account.calls(LIBRARY) == counts
    assert hooks == {"hooks": sum(counts.values())}


def arcs(gmon: bytes) -> list[int]:
    """Return the counts of calls in a gmon.out."""
    at, counts = 20, []
    while at < len(gmon):
        if gmon[at] == 1:
            counts.append(int.from_bytes(gmon[at + 17 : at + 21], "little"))
            at += 21
        else:
            assert gmon[at] == 0
            at += 41 + 2 * int.from_bytes(gmon[at + 17 : at + 21], "little")
    return sorted(counts)


def test_a_program_that_gprof_profiles_goes_on_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gmon.out is its own output: what is in it does not change."""
    command = [*reported.program("reported", "pg", "gcc", "-O0", "-pg"), "50"]
    found = []
    for name in ("plain", "observed"):
        monkeypatch.setenv("GMON_OUT_PREFIX", str(tmp_path / name))
        if name == "plain":
            run(command, timeout=limit())
        else:
            account = reported.observe("time", command)
        (file,) = tmp_path.glob(f"{name}.*")
        found.append(arcs(file.read_bytes()))
    assert found[0] == found[1] != []
    (program,) = account.facts["programs"]
    assert program["foreign"] == program["slots"] > 0
    assert not account.calls(LIBRARY)


STARTS = """
void monstartup(unsigned long, unsigned long), _mcleanup(void);
int outer(int);
void start(void)
{
    unsigned long page = (unsigned long)outer & -4096ul;
    monstartup(page, page + 4096);
}
void stop(void) { _mcleanup(); }
"""
STARTED = """
void start(void), stop(void);
int outer(int);
int main(void) { start(); int found = outer(1000); stop(); return found % 100; }
"""
OUTER = """
static __attribute__((noinline, noclone)) int inner(int n) { __asm__(""); return n + 1; }
int outer(int n) { int sum = 0; while (n--) sum += inner(n); return sum; }
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", ["quiet", "count"])
def test_a_gprof_that_a_library_starts_goes_on(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        made(
            {"starts.c": STARTS, "started.c": STARTED, "outer.c": OUTER},
            "gcc -O1 -fPIC -shared -o libouter.so -pg outer.c",
            "gcc -O1 -fPIC -shared -o libstarts.so starts.c libouter.so",
            "gcc -o started started.c libstarts.so libouter.so -Wl,-rpath,$ORIGIN",
        )
        / "started"
    )
    monkeypatch.setenv("GMON_OUT_PREFIX", str(tmp_path / "gmon"))
    account = reported.observe(mode, [str(program)])
    assert account.status == 500_500 % 100
    (file,) = tmp_path.glob("gmon.*")
    assert arcs(file.read_bytes()) == [1000]
    assert not account.calls("libouter.so")


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("hooks", "symbol"), [("cyg", "__cyg_profile_func_enter"), ("pg", "mcount")]
)
def test_it_comes_and_goes_while_threads_call(hooks: str, symbol: str) -> None:
    command = reported.program("reported", hooks, "gcc", "-O0")
    library = str(Path(command[0]).with_name(LIBRARY))
    with subprocess.Popen([*command, "0", "2"], stdin=subprocess.PIPE) as program:
        before = None
        reported.until_loaded(program.pid, library)
        for mode in ("time", "count", "sample", "quiet"):
            threads = reported.looked(program.pid, mode).threads
            calls = sum(node.calls for thread in threads for node in thread.nodes)
            assert bool(calls) == (mode != "quiet")
            after = reported.slot_of(program.pid, library, symbol)
            assert before in (None, after)
            before = after
        program.communicate(b"\n", timeout=limit())
    assert program.returncode == 3
