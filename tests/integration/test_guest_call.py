# SPDX-License-Identifier: Apache-2.0
"""Functions that a thread of a running process calls for soscope, while the others run."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from soscope.control.shield import shielded
from soscope.entry.agent.visit import Executed
from soscope.entry.guest import call as guest_call
from soscope.entry.guest.call import CallFault
from soscope.entry.guest.frames import Inside
from soscope.errors import NoSuchProcess
from soscope.proc import maps
from soscope.proc.status import Refused
from tests.support.processes import attached
from tests.support.processes.guests import Guests
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN
from tests.support.time.lasting import Visited, assert_no_longer, await_half
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run, state, waits_in

_CLOCK_NANOSLEEP = 230  # on x86-64
_SHORT = 1.0  # seconds for a thread to be fit once, where none is: who calls has 15

MUSL = PLAIN._replace(compiler="musl")
_WAITING = ("read", "poll", "nanosleep", "epoll", "cond", "sigwait")


@contextlib.contextmanager
def guests(pid: int) -> Iterator[Guests]:
    made = Guests(pid)
    try:
        yield made
    finally:
        made.close()


def library(program: Path) -> Path:
    return program.with_name("libguest.so")


@pytest.mark.every(11)
@pytest.mark.parametrize("threads", [1, 2, 40])
@pytest.mark.parametrize("way", [*_WAITING, "user", "malloc", "float", "dlopen"])
def test_nothing_is_different_afterwards(way: str, threads: int) -> None:
    few = threads == 40 or way == "dlopen"  # their threads or loader are hardly ever idle
    turns = 100 if way == "float" and threads == 2 else 5 if few else 10
    program = build.program("guest")
    with attached.running([program, way, str(threads)]) as process:
        with guests(process.pid) as guest:
            for _ in range(turns):
                assert guest.load(library(program)) > 0
        assert attached.finish(process) == (7, f"loads {turns}\n", "")


@pytest.mark.covering(1)
@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("way", [*_WAITING, "user", "malloc", "float"])
def test_programs_whose_c_library_is_the_loader(way: str, threads: int) -> None:
    """A thread that waits in musl is in its loader; a lock of malloc looks like a condition."""
    program = build.program("guest", MUSL)
    with attached.running([program, way, str(threads)]) as process:
        with guests(process.pid) as guest:
            assert guest.load(library(program), closes=False) > 0  # musl unloads nothing
            for _ in range(5):
                assert guest.load(library(program)) > 0
        assert attached.finish(process) == (7, "loads 1\n", "")


def test_all_wait_as_long_as_they_would() -> None:
    """Also those in whose place the calls are made, which sleep themselves."""

    def turn(guest: Guests, program: Path) -> None:
        assert guest.load(library(program)) > 0

    assert_they_wait_as_long(4, 0, 40, turn)


@pytest.mark.parametrize("way", ["nanosleep", "poll", "epoll", "cond"])
def test_a_single_thread_waits_as_long_as_it_would(way: str) -> None:
    """By turns: a stop alone, after which the kernel goes on with restart_syscall, and a call."""
    kind = ["nanosleep", "poll", "epoll", "cond"].index(way)

    def turn(guest: Guests, program: Path) -> None:
        guest.visit.stop()
        guest.visit.threads.resume()
        assert guest.load(library(program)) > 0

    assert_they_wait_as_long(1, kind, 20, turn)


def assert_they_wait_as_long(
    threads: int, kind: int, turns: int, turn: Callable[[Guests, Path], None]
) -> None:
    """Check the waits of a program in whose threads calls are made."""
    program = build.program("guest")

    def visit(seconds: int) -> list[Visited]:
        words = [str(program), "long", str(threads), str(kind), str(seconds)]
        with attached.running(words) as process:
            came = await_half(seconds)
            with guests(process.pid) as guest:
                for _ in range(turns):
                    turn(guest, program)
            left = time.monotonic_ns()
            status, out, err = attached.finish(process)
        assert (status, out) == (7, f"loads {turns}\n")
        waits = [[int(word) for word in line.split()] for line in err.splitlines()]
        assert len(waits) == threads
        return [Visited(began, came, left, ended) for began, ended in waits]

    assert_no_longer(visit)


def test_who_is_in_a_signal_handler_is_let_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has interrupted malloc, most likely."""
    monkeypatch.setattr(guest_call, "_FINDING", _SHORT)
    program = build.program("guest")
    with attached.running([program, "handler", "1"]) as process:
        until(waits_in(process.pid, _CLOCK_NANOSLEEP), "it sleeps, which its handler does alone")
        with guests(process.pid) as guest:

            def is_refused() -> bool:
                with pytest.raises(Refused) as refused:
                    guest.load(library(program))
                return "in a signal handler" in str(refused.value)

            # it may be stopped between two sleeps, too, where it holds a lock for all we know
            until(is_refused, "the reason is its handler")
        assert attached.finish(process) == (7, "loads 0\n", "")


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_thread_that_is_often_in_a_handler(threads: str) -> None:
    """It is taken when it is not, and another one before."""
    program = build.program("guest")
    with attached.running([program, "handler", threads, "1"]) as process:
        with guests(process.pid) as guest:
            for _ in range(20):
                assert guest.load(library(program)) > 0
        assert attached.finish(process) == (7, "loads 20\n", "")


@pytest.mark.parametrize("threads", ["1", "4"])
def test_an_allocator_of_the_programs_own(threads: str) -> None:
    """It sleeps with its lock held, in the C library."""
    program = build.program("guest")
    words = ["env", f"LD_PRELOAD={program.with_name('libguest_malloc.so')}", str(program)]
    with attached.running([*words, "malloc", threads]) as process:
        with guests(process.pid) as guest:
            for _ in range(20):
                assert guest.load(library(program)) > 0
        assert attached.finish(process) == (7, "loads 20\n", "")


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_stopped_process_stays_stopped(threads: str) -> None:
    program = build.program("guest")
    with attached.running([program, "poll", threads]) as process:
        with guests(process.pid) as guest:
            assert guest.load(library(program)) > 0
            stop(process.pid)
            assert guest.load(library(program)) > 0
            tids = [int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir()]
            until(lambda: {state(process.pid, tid) for tid in tids} == {"T"}, "all are stopped")
            process.send_signal(signal.SIGCONT)
        assert attached.finish(process) == (7, "loads 2\n", "")


def test_a_stopped_process_whose_threads_may_hold_locks_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They would not run meanwhile. A stop in which none of them is in malloc is no such one."""
    program = build.program("guest")
    loads = 0
    with attached.running([program, "malloc", "8"]) as process:
        with guests(process.pid) as guest:

            def reason() -> str:
                nonlocal loads
                stop(process.pid)
                try:
                    loads += guest.load(library(program)) > 0
                except Refused as refused:
                    return str(refused)
                finally:
                    process.send_signal(signal.SIGCONT)
                return ""

            with monkeypatch.context() as patched:
                patched.setattr(guest_call, "_FINDING", _SHORT)
                said = until(reason, "a call is refused")
            assert re.search(r"it is stopped, and thread .* would have to run", said)
            assert guest.load(library(program)) > 0
        assert attached.finish(process) == (7, f"loads {loads + 1}\n", "")


@contextlib.contextmanager
def bad(what: str, way: str = "read", threads: str = "2") -> Iterator[tuple[Any, Guests, Path]]:
    """Run a process with a library that does something bad when it is loaded."""
    program = build.program("guest")
    words = ["env", f"GUEST_BAD={what}", str(program), way, threads]
    with attached.running(words) as process, guests(process.pid) as guest:
        yield process, guest, program.with_name("libguest_bad.so")


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("way", ["read", "nanosleep", "malloc"])
def test_a_fault_in_a_constructor_is_told_and_survived(way: str, threads: str) -> None:
    with bad("fault", way, threads) as (process, guest, path):
        with pytest.raises(CallFault, match=r"signal 11 in libguest_bad.so$"):
            shielded(lambda: (guest.load(path),))
        assert guest.load(library(build.program("guest"))) > 0
        assert attached.finish(process) == (7, "loads 1\n", "")


@pytest.mark.covering(1)
@pytest.mark.parametrize("what", ["sleep", "loop"])
@pytest.mark.parametrize("way", ["read", "nanosleep", "epoll", "malloc"])
def test_who_does_not_come_back_is_fetched(what: str, way: str) -> None:
    """The loader can be used again, and the process's own end does so."""
    with bad(what, way) as (process, guest, path):
        for seconds in (0.2, 2, 20):  # on a busy machine it may not be there yet
            with pytest.raises(CallFault) as fault:
                guest.load(path, limit=seconds)
            where = re.search(f"within {seconds} s: it is in (.*)$", str(fault.value))
            if where is not None and where[1] in ("libc.so.6", "libguest_bad.so"):
                break
        else:
            pytest.fail(str(fault.value))
        assert guest.load(library(build.program("guest"))) > 0
        assert attached.finish(process) == (7, "loads 1\n", "")


@pytest.mark.covering(1)
@pytest.mark.parametrize("what", ["exit", "exec", "kill"])
@pytest.mark.parametrize("way", ["read", "float"])
@pytest.mark.parametrize("threads", ["1", "8"])
def test_a_program_that_ends_in_a_constructor_has_ended(what: str, way: str, threads: str) -> None:
    with bad(what, way, threads) as (process, guest, path):
        kind = Executed if what == "exec" else NoSuchProcess
        with pytest.raises(kind):
            shielded(lambda: (guest.load(path),))  # or its end would be ours to hear of
        if what == "exec":
            assert process.communicate("text\n", timeout=limit()) == ("text\n", "")
        assert process.wait(limit()) == {"exit": 9, "kill": -9, "exec": 0}[what]


def test_a_process_that_is_killed_meanwhile_has_ended() -> None:
    with bad("loop") as (process, guest, path):

        def kill() -> None:
            attached.wait_until(path.name, process.pid)
            until(has_run(process.pid), "it is in the constructor, which does not end")
            process.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(NoSuchProcess):
            shielded(lambda: (guest.load(path),))
        killer.join()
        assert process.wait(limit()) == -9


def test_a_stop_in_a_constructor_comes_afterwards() -> None:
    with bad("stop") as (process, guest, path):
        assert guest.load(path) > 0
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        process.send_signal(signal.SIGCONT)
        assert attached.finish(process) == (7, "loads 0\n", "")


def test_code_that_is_in_use_is_known() -> None:
    """Somebody is in the C library, and nobody in a library that was only loaded."""
    program = build.program("guest")
    with attached.running([program, "nanosleep", "2"]) as process:
        with guests(process.pid) as guest:
            assert guest.load(library(program), closes=False) > 0
            ranges: dict[str, tuple[int, int]] = {}
            for mapping in maps.read(process.pid):
                name = os.path.basename(mapping.path)
                low, high = ranges.get(name, (mapping.start, 0))
                ranges[name] = low, max(high, mapping.end)
            for name, is_used in (("libc.so.6", True), ("guest", True), ("libguest.so", False)):
                inside = Inside(guest.visit, *ranges[name])
                guest.visit.stop()
                try:
                    inside.look()
                finally:
                    guest.visit.threads.resume()
                assert bool(inside.threads()) == is_used, name
        assert attached.finish(process)[0] == 7


@pytest.mark.every(3)
@pytest.mark.parametrize("way", ["read", "malloc", "float"])
def test_a_process_that_is_traced(way: str) -> None:
    """The agent hears of the library by the thread that makes the call, and hooks it."""
    program = build.program("guest")
    with attached.running([program, way, "4"]) as process:
        tracer = attached.begin(process.pid, "-c", "-q", "-o", os.devnull)
        with guests(process.pid) as guest:
            for _ in range(20):
                assert guest.load(library(program)) > 0
            tracer.send_signal(signal.SIGINT)
            assert tracer.communicate(timeout=limit())[1] == ""
            assert guest.load(library(program)) > 0
        assert attached.finish(process) == (7, "loads 21\n", "")
