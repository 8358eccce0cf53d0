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
from soscope.entry.guest.call import CallFault
from soscope.entry.guest.inside import Inside
from soscope.errors import NoSuchProcess
from soscope.proc import maps
from soscope.proc.reasons import Refused
from tests.support.processes import attached
from tests.support.processes.guests import Guests
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN

_CLOCK_NANOSLEEP = "230"

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

    waits_as_long(["4"], 40, turn)


@pytest.mark.parametrize("way", ["nanosleep", "poll", "epoll", "cond"])
def test_a_single_thread_waits_as_long_as_it_would(way: str) -> None:
    """By turns: a stop alone, after which the kernel goes on with restart_syscall, and a call."""
    kind = ["nanosleep", "poll", "epoll", "cond"].index(way)

    def turn(guest: Guests, program: Path) -> None:
        guest.visit.stop()
        guest.visit.threads.resume()
        assert guest.load(library(program)) > 0

    waits_as_long(["1", str(kind)], 20, turn)


def waits_as_long(threads: list[str], turns: int, turn: Callable[[Guests, Path], None]) -> None:
    """Check the waits of a program in whose threads calls are made.

    Other programs may have the processors when a wait is over, but hardly three times: a wait
    that soscope has prolonged is late each time.
    """
    program = build.program("guest")
    for _ in range(3):
        with attached.running([program, "long", *threads]) as process:
            with guests(process.pid) as guest:
                for _ in range(turns):
                    turn(guest, program)
            status, out, err = attached.finish(process)
        assert (status, out, err.replace("late\n", "")) == (7, f"loads {turns}\n", "")
        if not err:
            return
    pytest.fail("waits took a second longer than they were asked for, three times")


def test_who_is_in_a_signal_handler_is_let_alone() -> None:
    """It has interrupted malloc, most likely."""
    program = build.program("guest")
    with attached.running([program, "handler", "1"]) as process:
        wait_for_sleep(process.pid)
        with guests(process.pid) as guest, pytest.raises(Refused, match="in a signal handler"):
            guest.load(library(program))
        assert attached.finish(process) == (7, "loads 0\n", "")


def wait_for_sleep(pid: int) -> None:
    """Wait until the first thread sleeps, which it does in its handler alone."""
    end = time.monotonic() + attached.LIMIT
    while Path(f"/proc/{pid}/syscall").read_text().split()[0] != _CLOCK_NANOSLEEP:
        assert time.monotonic() < end, "it does not come to its handler"
        time.sleep(0.005)


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
            time.sleep(0.1)
            states = {
                path.read_text().rpartition(")")[2].split()[0]
                for path in Path(f"/proc/{process.pid}/task").glob("*/stat")
            }
            assert states == {"T"}
            process.send_signal(signal.SIGCONT)
        assert attached.finish(process) == (7, "loads 2\n", "")


def test_a_stopped_process_whose_threads_may_hold_locks_is_refused() -> None:
    """They would not run meanwhile. A stop in which none of them is in malloc is no such one."""
    program = build.program("guest")
    said, loads = "", 0
    with attached.running([program, "malloc", "8"]) as process:
        with guests(process.pid) as guest:
            end = time.monotonic() + 60
            while not said:
                assert time.monotonic() < end
                stop(process.pid)
                try:
                    loads += guest.load(library(program)) > 0
                except Refused as refused:
                    said = str(refused)
                process.send_signal(signal.SIGCONT)
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
        with pytest.raises(CallFault, match=r"within 0.2 s: it is in lib(c.so.6|guest_bad.so)$"):
            guest.load(path, limit=0.2)
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
            assert process.communicate("text\n", timeout=20) == ("text\n", "")
        assert process.wait(20) == {"exit": 9, "kill": -9, "exec": 0}[what]


def test_a_process_that_is_killed_meanwhile_has_ended() -> None:
    with bad("loop") as (process, guest, path):
        timer = threading.Timer(0.3, process.kill)
        timer.start()
        with pytest.raises(NoSuchProcess):
            shielded(lambda: (guest.load(path),))
        timer.join()
        assert process.wait(20) == -9


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
            assert tracer.communicate(timeout=60)[1] == ""
            assert guest.load(library(program)) > 0
        assert attached.finish(process) == (7, "loads 21\n", "")
