# SPDX-License-Identifier: Apache-2.0
"""Which threads are inside a library: by true frames, not by what is left over on stacks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from soscope.entry import ptrace
from soscope.entry.agent.visit import Visit
from soscope.entry.guest.frames import EARLY, MOST_FRAMES, SAID, CodePlaces, Frames, Inside, Walk
from soscope.proc import maps
from tests.support.machines.tools import need
from tests.support.processes import attached
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import all_wait, reads_input, waits_in

_OUTSIDE = ("read", "poll", "nanosleep", "futex", "join", "qsort", "interrupted", "interrupted-alt")
_INSIDE = ("callback", "handler", "handler-alt", "below", "deep", "in-coroutine")

_POLL = 7  # on x86-64
_ABOVE = 8  # hold() four times, main, two functions of libc, _start


def span(pid: int, name: str = "libinside.so") -> tuple[int, int]:
    """Return where a library lies."""
    own = [each for each in maps.read(pid) if each.path.endswith(name)]
    return own[0].start, own[-1].end


class Look:
    """One look at a process: how many threads mention a library, and how many are inside."""

    def __init__(self, pid: int, low: int, high: int) -> None:
        visit = Visit(pid)
        try:
            inside = Inside(visit, low, high)
            visit.stop()
            try:
                inside.look()
            finally:
                visit.threads.resume()
            self.mentioned = len(inside._suspects)
            self.inside = len(inside.threads())
        finally:
            visit.close()


def word(visit: Visit, addr: int) -> int | None:
    data = visit.memory.read(addr, 8)
    return int.from_bytes(data, "little") if len(data) == 8 else None


def walks(pid: int) -> dict[int, Walk]:
    """Walk the stacks of all threads of a process, as they are."""
    visit = Visit(pid)
    try:
        frames = Frames(visit, CodePlaces(visit))
        visit.stop()
        try:
            return {
                tid: frames.walk(registers.columns(), lambda addr: word(visit, addr))
                for tid, registers in visit.threads.registers().items()
            }
        finally:
            visit.threads.resume()
    finally:
        visit.close()


@pytest.mark.parametrize("way", [*_OUTSIDE, *_INSIDE])
def test_frames_count_and_nothing_else(way: str) -> None:
    said = "inside\n" if way in _INSIDE else "outside\n"
    with attached.running([build.program("inside"), way], ready=said) as process:
        until(all_wait(process.pid), "it waits", running=process)
        look = Look(process.pid, *span(process.pid))
        assert look.mentioned == 1  # or the test says nothing
        assert look.inside == (way in _INSIDE)


@pytest.mark.every(2)
@pytest.mark.parametrize("way", ["clock", "stub"])
def test_a_thread_that_runs_is_followed_from_wherever_it_is(way: str) -> None:
    with attached.running([build.program("inside"), way], ready="outside\n") as process:
        where = span(process.pid)
        seen = set()
        for _ in range(100):
            look = Look(process.pid, *where)
            assert (look.mentioned, look.inside) == (1, 0)
            [walk] = walks(process.pid).values()
            assert walk.end != EARLY
            seen.add(walk.places[0])
        assert len(seen) > 1


@pytest.mark.every(2)
@pytest.mark.parametrize("way", ["clock", "stub"])
def test_every_instruction_has_the_same_callers(way: str) -> None:
    """In the linker's stub, at the beginning of a function, in its epilogue, in the vDSO."""
    program = build.program("inside")
    with attached.running([program, way], ready="outside\n") as process:
        pid = process.pid
        low, _ = span(pid, "/inside")
        words = [need("readelf"), "-SW", str(program)]
        text = run(words, timeout=limit()).stdout
        stubs = [
            range(low + int(vaddr, 16), low + int(vaddr, 16) + int(size, 16))
            for vaddr, size in re.findall(r" \.plt\S*\s+PROGBITS\s+(\w+) \w+ (\w+)", text)
        ]
        vdso = next(each for each in maps.read(pid) if each.path == "[vdso]")
        visit = Visit(pid)
        seen: set[str] = set()
        callers = set()
        try:
            inside = Inside(visit, *span(pid))
            frames = Frames(visit, CodePlaces(visit))
            visit.stop()
            try:
                for _ in range(400):
                    ptrace.step(pid)
                    assert os.waitpid(pid, ptrace.WALL)[0] == pid
                    inside.look()
                    assert (len(inside._suspects), inside.threads()) == (1, [])
                    [registers] = visit.threads.registers().values()
                    walk = frames.walk(registers.columns(), lambda at: word(visit, at))
                    assert walk.end == SAID
                    # those above the function that goes round: hold() four times, main, libc, …
                    callers.add(tuple(walk.places[-_ABOVE:]))
                    assert _ABOVE < len(walk.places) <= _ABOVE + 5
                    seen |= {"stub" for each in stubs if registers.pc in each}
                    seen |= {"vdso"} if vdso.start <= registers.pc < vdso.end else set()
            finally:
                visit.threads.resume()
        finally:
            visit.close()
        assert len(callers) == 1
        # each tick of the clock makes vDSO code that is stepped through begin anew
        assert seen >= {"vdso" if way == "clock" else "stub"}


def test_a_hundred_threads_that_only_mention_it() -> None:
    command: list[str | Path] = [build.program("inside"), "threads", "100"]
    with attached.running(command, ready="outside\n") as process:
        where = span(process.pid)
        looks = [Look(process.pid, *where) for _ in range(5)]
        assert {(look.mentioned, look.inside) for look in looks} == {(100, 0)}


def test_a_coroutine_that_no_thread_is_on_is_not_seen() -> None:
    """As docs/reference/limitations.md says."""
    command: list[str | Path] = [build.program("inside"), "coroutine"]
    with attached.running(command, ready="outside\n") as process:
        look = Look(process.pid, *span(process.pid))
        assert look.inside == 0


@pytest.mark.parametrize("depth", [100, 2000])
def test_all_frames_of_a_recursion_are_walked(depth: int) -> None:
    for way, said in (("recursion", "outside"), ("deep", "inside")):
        command: list[str | Path] = [build.program("inside"), way, str(depth)]
        with attached.running(command, ready=f"{said}\n") as process:
            look = Look(process.pid, *span(process.pid))
            assert (look.mentioned, look.inside) == (1, said == "inside")
            [walk] = walks(process.pid).values()
            assert walk.end != EARLY
            assert len(walk.places) > depth


@pytest.mark.parametrize("way", ["machine-code", "clean-machine-code"])
def test_below_code_without_tables_each_word_counts(way: str) -> None:
    with attached.running([build.program("inside"), way], ready="outside\n") as process:
        [walk] = walks(process.pid).values()
        assert walk.end == EARLY
        look = Look(process.pid, *span(process.pid))
        is_littered = way == "machine-code"
        assert (look.mentioned, look.inside) == (is_littered, is_littered)


def does_poll(pid: int) -> bool:
    """Return whether any thread of a process waits in poll(2)."""
    return any(waits_in(pid, _POLL, tid=int(tid))() for tid in os.listdir(f"/proc/{pid}/task"))


@pytest.mark.parametrize("options", [[], ["-c"], ["--entry-only"]])
def test_calls_that_return_through_the_agent(options: list[str]) -> None:
    """A trace is on: poll was called through a trampoline."""
    program = build.program("looping")
    with attached.running([program]) as process:
        tracer = attached.begin(process.pid, "-o", os.devnull, *options)
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("park\n")
            process.stdin.flush()
            assert process.stdout.readline() == "parks\n"
            until(lambda: does_poll(process.pid), "a thread parks", running=process)
            ends = [walk.end for walk in walks(process.pid).values()]
            assert ends == [SAID] * 3
        finally:
            tracer.terminate()
            tracer.communicate(timeout=limit())


@pytest.mark.parametrize("way", ["recursion", "below"])
def test_of_too_many_frames_each_word_counts(way: str) -> None:
    said = "inside\n" if way == "below" else "outside\n"
    command: list[str | Path] = [build.program("inside"), way, str(2 * MOST_FRAMES)]
    with attached.running(command, ready=said) as process:
        [walk] = walks(process.pid).values()
        assert (walk.end, len(walk.places)) == (EARLY, MOST_FRAMES)
        assert Look(process.pid, *span(process.pid)).inside == 1


_FRAMES_OF_GDB = """
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, pcs = gdb.newest_frame(), []
    while frame is not None:
        if frame.type() in (gdb.NORMAL_FRAME, gdb.SIGTRAMP_FRAME):
            pcs.append(hex(frame.pc()))
        frame = frame.older()
    print("frames", thread.ptid[1], *pcs)
"""

_STDIN = {
    "python3": ["-c", "import sys; sys.stdin.read()"],
    "perl": ["-e", "<STDIN>"],
    "bash": ["-c", "read line; echo"],
    "sqlite3": [],
}


@pytest.mark.every(4)
@pytest.mark.parametrize("name", [*_STDIN, "handler-alt", "interrupted", "threads", "futex"])
def test_frames_are_those_of_gdb(name: str, tmp_path: Path) -> None:
    script = tmp_path / "frames.py"
    script.write_text(_FRAMES_OF_GDB)
    command: list[str | Path] = [build.program("inside"), name, "3"]
    ready = "inside\n" if name == "handler-alt" else "outside\n"
    if name in _STDIN:
        command, ready = [need(name), *_STDIN[name]], ""
    with attached.running(command, ready=ready) as process:
        rests = (reads_input if name in _STDIN else all_wait)(process.pid)
        until(rests, "it waits", running=process)
        ours = {
            tid: [place + (1 if number else 0) for number, place in enumerate(walk.places)]
            for tid, walk in walks(process.pid).items()
            if walk.end != EARLY
        }
        options = ["set backtrace past-main on", "set backtrace past-entry on", f"source {script}"]
        text = subprocess.run(
            [need("gdb"), "-nx", "-batch", "-p", str(process.pid)]
            + [word for option in options for word in ("-ex", option)],
            capture_output=True,
            text=True,
            timeout=limit(120),
            check=True,
        ).stdout
    theirs = {
        int(tid): [int(pc, 16) for pc in pcs.split()]
        for tid, pcs in re.findall(r"^frames (\d+) (.*)$", text, re.MULTILINE)
    }
    assert len(theirs) == (4 if name == "threads" else 1)
    # what a signal has interrupted is at its own place, not behind a call
    assert ours.keys() == theirs.keys()
    for tid, places in ours.items():
        assert all(a - b in (0, 1) for a, b in zip(places, theirs[tid], strict=True))
