# SPDX-License-Identifier: Apache-2.0
"""Counts by call site, by whichever thread, as the program itself counts its calls."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from typing import Any

import pytest

from soscope.entry.agent import resident
from soscope.entry.ptrace import RemoteMemory
from soscope.proc import maps
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.run import soscope
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN
from tests.support.time.patience import limit

COMPILERS = ("gcc", "clang")
COUNT = ("--boundary", "count", "-l", "libleaf*", "--json")


def made(document: dict[str, Any]) -> dict[str, int]:
    """Return the calls of f0 by the function that has called."""
    found: dict[str, int] = {}
    for arc in document["arcs"]:
        if arc["callee"] == "f0":
            found[arc["caller"]] = found.get(arc["caller"], 0) + arc["calls"]
    return found


def told(output: str, *roles: str) -> dict[str, int]:
    """Return what the program says that it has called."""
    found: dict[str, int] = {}
    for line in output.splitlines():
        role, *rest = line.split()
        if role in roles:
            found[rest[0]] = found.get(rest[0], 0) + int(rest[1])
    return found


def profiled(*words: str, compiler: str = "gcc", options: tuple[str, ...] = ()) -> tuple[str, Any]:
    command = [str(build.program("hot_sites", PLAIN._replace(compiler=compiler))), *words]
    done = soscope("prof", "run", "-q", *options, *COUNT, *command, timeout=limit(180))
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(done.stderr[done.stderr.index("{") :])


@pytest.mark.covering(1)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "words",
    [
        ("main:a:5000", "main:ab:20000", "main:abcdef:20000", "main:f:5000"),
        ("once:ab:40000:2", "once:ba:40000:2", "main:abc:5000"),
        ("main:a:3000", "once:abcde:20000:4", "main:b:3000", "once:a:50000:4"),
        ("once:abc:3000:100", "once:cde:3000:100"),
        ("turns:abc:3000:60", "turns:cba:3000:60", "once:abc:3000:8"),
    ],
    ids=["one", "two", "four", "hundred", "turns"],
)
def test_no_call_is_lost_and_each_is_its_callers(words: tuple[str, ...], compiler: str) -> None:
    output, document = profiled(*words, compiler=compiler)
    assert made(document) == told(output, "main")
    assert sum(made(document).values()) == document["totals"]["calls"]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_handlers_call_from_wherever_they_interrupt(compiler: str) -> None:
    output, document = profiled("main:g:5000", "signals:ab:400000", compiler=compiler)
    assert told(output, "main")["site_g"] > 5000
    assert made(document) == told(output, "main")


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("follow", [False, True])
def test_a_child_that_is_forked_in_a_handler(follow: bool, compiler: str) -> None:
    """Its thread has the parent's thread pointer, call sites and stack."""
    options = ("-f",) if follow else ()
    output, document = profiled(
        "main:ab:9000", "forks:ab:60000", compiler=compiler, options=options
    )
    assert told(output, "child")["site_a"] == 20 * 60000
    roles = ("main", "child") if follow else ("main",)
    assert made(document) == told(output, *roles)


def learned(pid: int) -> int:
    """Return how many call sites counters of a process count by themselves."""
    memory = RemoteMemory(pid)
    try:
        (agent,) = resident.find(memory, maps.read(pid))
        data = memory.read(agent.fields["counterdata"], 128 * agent.fields["counter_count"])
    finally:
        memory.close()
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    return sum(word > agent.fields["sessions"] for at in (4, 6) for word in words[at::16])


def say(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    for word in words.split():
        process.stdin.write(word + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"


@pytest.mark.every(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_session_has_call_sites_of_its_own(compiler: str) -> None:
    """The same slot, by the same thread: what an earlier session has learned is not this one's."""
    program = build.program("hot_sites", PLAIN._replace(compiler=compiler))
    rounds = (
        ("main:abc:5000", {"site_a": 5000, "site_b": 5000, "site_c": 5000}),
        ("main:cb:7000 once:b:9000:2", {"site_c": 7000, "site_b": 25000}),
        ("once:e:30000:4 main:e:5000 main:a:4000", {"site_e": 125_000, "site_a": 4000}),
        ("main:a:6000 main:ab:3000", {"site_a": 9000, "site_b": 3000}),
    )
    with attached.running([program, "-"]) as process:
        before = attached.snapshot(process.pid)
        for words, wanted in rounds:
            profiler = subprocess.Popen(
                [sys.executable, "-m", "soscope", "prof", "attach", "-p", str(process.pid), *COUNT],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            attached.assert_it_profiles(profiler, process.pid)
            say(process, words)
            assert learned(process.pid) > 0
            assert soscope("detach", "-p", str(process.pid)).returncode == 0
            out, _ = profiler.communicate(timeout=limit())
            assert made(json.loads(out)) == wanted
            say(process, "main:abcdef:3000")  # nobody counts
            assert learned(process.pid) == 0
            assert attached.differences(before, process.pid) == []
