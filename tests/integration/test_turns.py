# SPDX-License-Identifier: Apache-2.0
"""A process is hooked, and made what it was, in many short stops: it goes on rightly in between.

The shortest turns that there can be make every place in the work one where the process goes on.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from soscope.entry.agent.resident import find
from soscope.entry.ptrace import RemoteMemory
from soscope.proc import maps
from tests.support.machines.tools import need
from tests.support.processes import attached, turns
from tests.support.processes.launching import environment
from tests.support.processes.patching import say
from tests.support.targets import build
from tests.support.targets.build import made
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run, has_switched

MODES = {
    "count": ["--count-only"],
    "times": ["-c"],
    "calls": ["--record", "{}/run.sosr", "--buffer", "1M"],
}


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", MODES)
def test_threads_that_throw_load_and_fork_go_on(mode: str, tmp_path: Path) -> None:
    with attached.running([build.program("attached_mixed")]) as process:
        before = attached.snapshot(process.pid, without="libanl")
        hooking, putting_back = turns.trace(process.pid, tmp_path, *MODES[mode])
        assert min(hooking, putting_back) >= 10
        assert attached.differences(before, process.pid, without="libanl") == []
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")


def test_an_interpreter_goes_on_and_what_it_loads_meanwhile_is_hooked(tmp_path: Path) -> None:
    text = (
        "import sys, threading\nprint('ready', flush=True)\n"
        "names = 'json _ssl sqlite3 ctypes bz2 lzma decimal unicodedata zoneinfo'.split()\n"
        "over = []\n"
        "def load():\n"
        "    for name in names: __import__(name)\n"
        "def count():\n"
        "    while not over: str(1) + repr([2.5])\n"
        "other = threading.Thread(target=count); other.start()\n"
        "load(); sys.stdin.readline(); over.append(1); other.join(); print('end')"
    )
    with attached.running([need("python3"), "-c", text]) as process:
        before = attached.snapshot(process.pid)
        hooking, _ = turns.trace(process.pid, tmp_path, "-c")
        assert hooking >= 10
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (0, "end\n", "")


def test_a_child_that_is_forked_between_two_stops_is_hooked_like_its_parent(tmp_path: Path) -> None:
    text = (
        "import os, sys, time\nprint('ready', flush=True)\n"
        f"stops = {str(tmp_path / 'in')!r}\n"
        "while not os.path.exists(stops) or os.path.getsize(stops) < 5: time.sleep(0.0001)\n"
        "child = os.fork()\n"
        "if child: print(child, flush=True)\n"
        "end = time.monotonic() + 120\n"
        "while time.monotonic() < end: time.sleep(0.01)\n"
    )
    with attached.running([need("python3"), "-c", text]) as process:
        before = attached.snapshot(process.pid)
        with subprocess.Popen(
            turns.words(process.pid, tmp_path, "1h", "-f", "--count-only"),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as tracer:
            assert process.stdout is not None
            child = int(process.stdout.readline())
            try:
                attached.wait_until("memfd:soscope", child)
                until(lambda: not waiting(process.pid), "all is hooked", running=tracer)
                until(lambda: not waiting(child), "all of the child is", running=tracer)
                hooked = changed(before, process.pid)
                assert len(hooked) > 1000
                assert changed(before, child) == hooked
            finally:
                tracer.terminate()
                tracer.communicate(timeout=limit())
                os.kill(child, signal.SIGKILL)


def changed(before: attached.Words, pid: int) -> set[str]:
    """Return the words of a process that are not what they were, but not its relocations.

    Only those of slots that are not bound yet change, and each process binds its own.
    """
    lines = attached.differences(before, pid)
    return {line.rpartition(":")[0] for line in lines if " .rela." not in line}


def waiting(pid: int) -> int:
    """Return how many images the agent in a process has still to hook."""
    memory = RemoteMemory(pid)
    try:
        return sum(agent.fields["waiting"] for agent in find(memory, maps.read(pid)))
    finally:
        memory.close()


def test_a_thread_that_runs_all_the_time_is_not_waited_for() -> None:
    """What a trampoline has left in a register of it is no call that is to return."""
    with attached.running([build.program("attached_mixed")]) as process:
        before = attached.snapshot(process.pid, without="libanl")
        for options in (["--from", "all"], ["-e", "malloc@MAIN,free@MAIN"]):
            done = attached.observe(process.pid, "-c", *options, until=has_run(process.pid))
            assert "slots of unwinders left" not in done.stderr
            assert attached.differences(before, process.pid, without="libanl") == []
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")


@pytest.mark.parametrize("times", sizes(2, 6))
def test_exceptions_that_are_on_their_way_are_caught_where_they_would_have_been(times: int) -> None:
    with attached.running([build.program("attached_cleanup")]) as process:
        before = attached.snapshot(process.pid)
        for _ in range(times):
            words = ("-c", "--from", "all")
            done = attached.observe(process.pid, *words, until=has_switched(process.pid, 6))
            assert done.returncode == 0, done.stderr
            assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")


def test_a_second_session_is_as_the_first(tmp_path: Path) -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        before = attached.snapshot(process.pid)
        for mode in ("times", "calls"):
            turns.trace(process.pid, tmp_path, *MODES[mode])
            assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_what_a_killed_soscope_has_not_hooked_yet_is_not_hooked_after_detaching(
    tmp_path: Path,
) -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        before = attached.snapshot(process.pid)
        with turns.gated(process.pid, tmp_path, "--count-only") as (tracer, gate):
            gate.let(3)
            until(lambda: turns.stops(tmp_path) == 3, "three turns", running=tracer)
            assert waiting(process.pid)
            tracer.kill()
            tracer.wait(limit())
            done = attached.detach(process.pid)
            assert done.returncode == 0, done.stderr
            gate.close()
            tracer.communicate(timeout=limit())  # until its child has ended, too
        assert not waiting(process.pid)
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


_SOURCES = {
    "leaf.c": "int leaf(int x) { return x + 1; }",
    "plug.c": "int leaf(int); int use(int x) { return leaf(x) + 1; }",
    # at a fixed address: that of leaf is the program's own stub, for the plug-in, too
    "program.c": r"""
#include <dlfcn.h>
#include <stdio.h>
int leaf(int);
int (*volatile pointer)(int);
int main(void)
{
	char line[8] = "r";
	int (*use)(int) = 0, sum = leaf((pointer = leaf)(0)) - 2;

	for (;; fgets(line, sizeof(line), stdin)) {
		if (line[0] == 'l')
			use = (int (*)(int))dlsym(dlopen("./plug.so", RTLD_NOW), "use");
		for (int i = 0; line[0] == 'c' && i < 100; i++)
			sum += use(i);
		if (line[0] == 'e')
			return sum == 5150 ? 7 : 1;
		puts("ready");
		fflush(stdout);
	}
}
""",
}


def test_a_plug_in_that_comes_before_the_program_is_hooked_is_counted_once(tmp_path: Path) -> None:
    place = made(
        _SOURCES,
        "gcc -O1 -shared -fPIC leaf.c -o libleaf.so",
        "gcc -O1 -shared -fPIC -fno-plt plug.c -o plug.so",
        "gcc -O1 -no-pie -fno-pic program.c -o program -L. -lleaf -ldl -Wl,-rpath,.",
    )
    with attached.running(["env", "-C", place, "./program"]) as process:
        options = ("--count-only", "-e", "leaf")
        with turns.gated(process.pid, tmp_path, *options) as (tracer, gate):
            until(lambda: waiting(process.pid), "images wait to be hooked", running=tracer)
            assert say(process, "load") == "ready"
            assert waiting(process.pid)
            assert not turns.stops(tmp_path)
            gate.close()
            until(lambda: not waiting(process.pid), "they are hooked", running=tracer)
            assert say(process, "call") == "ready"
            assert turns.stops(tmp_path)
            tracer.terminate()
            _, text = tracer.communicate(timeout=limit())
        assert re.search(r"^ *100 +total", text, re.MULTILINE), text
        assert attached.finish(process)[0] == 7
