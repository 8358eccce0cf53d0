# SPDX-License-Identifier: Apache-2.0
"""soscope.hook inside a process that soscope traces from outside, begun and ended in any order.

Who compares is outside: every word that names a function, in every image, by the section headers.
"""

from __future__ import annotations

import itertools
import random
import signal
import subprocess

import pytest

from tests.support.processes import attached, hooked
from tests.support.processes.launching import environment
from tests.support.targets.covering import sizes
from tests.support.targets.matrix import Cell
from tests.support.time.patience import limit

OTHER = 4711
TRACE = ["-e", "getpid,getenv,malloc,free", "--from", "all", "-c"]
EVENTS = ["+hook", "-hook", "+trace", "-trace"]

BEGIN = {
    "hook": "hook = soscope.hook('getpid', hooking.fixed_pid); hook.__enter__(); None",
    "python": "python = soscope.hook('getpid', lambda original: 4711); python.__enter__(); None",
    "pass": "past = soscope.hook('getpid', lambda original: original()); past.__enter__(); None",
}
END = {
    "hook": "hook.__exit__(None, None, None)",
    "python": "python.__exit__(None, None, None)",
    "pass": "past.__exit__(None, None, None)",
}


def orders(names: list[str]) -> list[tuple[str, ...]]:
    """Return every order of beginnings and ends in which each ends after it has begun."""
    events = [sign + name for name in names for sign in "+-"]
    return [
        order
        for order in itertools.permutations(events)
        if all(order.index("+" + name) < order.index("-" + name) for name in names)
    ]


def counted(tracer: subprocess.Popen[str], name: str) -> int:
    """End a trace and return how often a function was called, by its table."""
    assert tracer.stdout is not None
    tracer.send_signal(signal.SIGINT)
    out, err = tracer.communicate(timeout=limit())
    assert tracer.returncode == 0, err
    rows = [line.split() for line in (out + err).splitlines() if line.endswith(f" {name}")]
    return int(rows[0][3]) if rows else 0


def stop(tracer: subprocess.Popen[str]) -> None:
    tracer.send_signal(signal.SIGINT)
    _, err = tracer.communicate(timeout=limit())
    assert tracer.returncode == 0, err


def assert_slots_come_back(
    order: tuple[str, ...], cell: Cell, *, now: bool = True, threads: int = 1
) -> None:
    """Begin and end in this order, with threads that call all the time; compare all slots."""
    with hooked.told(cell, now=now) as process:
        process("import soscope.hooking.hook, numpy; refusal('getpid', len, from_='nobody'); 0")
        process("refusal('getpid', hooking.fixed_pid); refusal('getpid', lambda o: 1); 0")
        before = attached.snapshot(process.pid)
        tracers: dict[str, subprocess.Popen[str]] = {}
        standing: list[str] = []
        process(f"begin({threads}, {OTHER})")  # one is in a call all the time, too
        for event in order:
            name = event[1:]
            if name.startswith("trace"):
                if event[0] == "+":
                    tracers[name] = attached.begin(process.pid, *TRACE)
                else:
                    stop(tracers.pop(name))
            elif event[0] == "+":
                process(BEGIN[name])
                process("await_calls(500)")
                standing.append(name)
            else:
                process(END[name])
                standing.remove(name)
            replaced = bool({"hook", "python"} & set(standing))
            expected = OTHER if replaced else process.pid
            assert process("ask_pid()") == expected, (event, order)
        calls, others, wrong = process("end()")
        assert calls >= 500
        assert others
        assert not wrong
        assert attached.differences(before, process.pid) == []


@pytest.mark.every(8)
@pytest.mark.parametrize("binding", ["now", "lazy"])
@pytest.mark.parametrize("order", orders(["hook", "trace"]), ids=" ".join)
def test_a_c_function_and_a_trace(order: tuple[str, ...], binding: str) -> None:
    assert_slots_come_back(order, Cell(binding=binding), now=binding == "now")


@pytest.mark.every(6)
@pytest.mark.parametrize("order", orders(["python", "trace"]), ids=" ".join)
def test_a_python_callable_and_a_trace(order: tuple[str, ...]) -> None:
    assert_slots_come_back(order, Cell(binding="lazy"), now=False)


@pytest.mark.every(4)
@pytest.mark.parametrize("threads", sizes(1, 3))
@pytest.mark.parametrize(
    "order", random.Random(7).sample(orders(["hook", "pass", "trace"]), 8), ids=" ".join
)
def test_two_hooks_and_a_trace(order: tuple[str, ...], threads: int) -> None:
    assert_slots_come_back(order, Cell(binding="now"), threads=threads)


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "order",
    [
        "+trace1 +python -trace1 +trace2 -trace2 -python",
        "+trace1 +python -trace1 +trace2 -python -trace2",
        "+trace1 -trace1 +pass +trace2 +python -pass -trace2 -python",
        "+pass +trace1 +python -trace1 -pass +trace2 -python -trace2",
        "+pass +trace1 +python -pass -trace1 +trace2 -trace2 -python",
    ],
)
def test_a_second_trace_finds_the_same_cells(order: str) -> None:
    assert_slots_come_back(tuple(order.split()), Cell(binding="now"))


@pytest.mark.parametrize("last", ["detach", "hook"])
def test_a_soscope_that_is_killed_below_a_hook(last: str) -> None:
    with hooked.told(Cell(binding="now")) as process:
        before = attached.snapshot(process.pid)
        tracer = attached.begin(process.pid, *TRACE)
        process(BEGIN["python"])
        tracer.kill()
        tracer.communicate(timeout=limit())
        assert process("ask_pid()") == OTHER
        if last == "hook":
            done = attached.detach(process.pid)
            assert "left unchanged: another tool has set it to" in done.stdout + done.stderr
            assert process("ask_pid()") == OTHER
        process(END["python"])
        if last == "detach":
            assert attached.detach(process.pid).returncode == 0
        assert process("ask_pid()") == process.pid
        assert attached.differences(before, process.pid) == []


@pytest.mark.covering(1)
@pytest.mark.parametrize("first", ["hook", "trace"])
@pytest.mark.parametrize("kind", ["hooking.fixed_pid", "lambda original: original()"])
def test_a_trace_counts_the_calls_of_a_hooked_function(first: str, kind: str) -> None:
    begin = f"hook = soscope.hook('getpid', {kind}, from_='libhooked.so').__enter__(); None"
    with hooked.told(Cell(binding="now")) as process:
        if first == "hook":
            process(begin)
        tracer = subprocess.Popen(
            attached.words(process.pid, "-c", "-e", "getpid", "--from", "libhooked.so"),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        attached.wait_until("memfd:soscope", process.pid)
        attached.wait_for_hooks(tracer)
        if first == "trace":
            process(begin)
        process("[ask_pid() for _ in range(1000)]; None")
        is_in_front = first == "trace" and kind == "hooking.fixed_pid"  # and calls nobody
        assert counted(tracer, "getpid") == (0 if is_in_front else 1000)
        process("hook.end()")
        assert process("ask_pid()") == process.pid
