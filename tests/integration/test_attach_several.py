# SPDX-License-Identifier: Apache-2.0
"""One trace of several processes that run already: each says itself what it called."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from soscope.proc import status
from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.targets import build, mapped
from tests.support.time.patience import limit, until

CALLS = ["-e", "getppid@MAIN"]

Processes = list[subprocess.Popen[str]]


@contextmanager
def running(count: int, program: Path | None = None) -> Iterator[Processes]:
    with ExitStack() as stack:
        command = [program or build.program("on_demand")]
        yield [stack.enter_context(attached.running(command)) for _ in range(count)]


@contextmanager
def tracing(*words: str) -> Iterator[subprocess.Popen[str]]:
    tracer = subprocess.Popen(
        [sys.executable, "-m", "soscope", "--debug", "trace", *words],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield tracer
    finally:
        tracer.kill()
        tracer.communicate(timeout=limit())


def end(tracer: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[int, str, str]:
    """Stop a trace; return its status and what it printed."""
    tracer.send_signal(number)
    out, err = tracer.communicate(timeout=limit())
    return tracer.returncode, out, err


def pids(processes: Processes) -> str:
    return ",".join(str(one.pid) for one in processes)


def call(process: subprocess.Popen[str], number: int) -> int:
    """Let a process make calls; return how many it says that it has made in all."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def await_hooks(processes: Processes) -> None:
    """Wait until the slot of each process is hooked."""
    for process in processes:
        until(partial(is_hooked, process.pid), "its slot is hooked")


def is_hooked(pid: int) -> bool:
    slots = mapped.slots(mapped.read(pid))
    return [one["state"] for one in slots if one["symbol"] == "getppid"] == ["hooked"]


def calls(lines: str) -> Counter[int]:
    """Return the calls by process of a trace in JSON Lines, which are in order of time."""
    events = [json.loads(line) for line in lines.splitlines()]
    times = [event["time_ns"] for event in events if event["type"] == "call"]
    assert times == sorted(times)
    return Counter(event["pid"] for event in events if event["type"] == "call")


@pytest.mark.every(2)
@pytest.mark.parametrize("style", ["-p A -p B -p C", "-p A,B,C", "-p A,B -p C -p A"])
def test_all_of_them_are_traced(style: str, tmp_path: Path) -> None:
    output = tmp_path / "calls.jsonl"
    with running(3) as processes:
        before = [attached.snapshot(one.pid) for one in processes]
        for letter, process in zip("ABC", processes, strict=True):
            style = style.replace(letter, str(process.pid))
        with tracing(*CALLS, "--json", "-o", str(output), *style.split()) as tracer:
            await_hooks(processes)
            made = {one.pid: call(one, 10 * at) for at, one in enumerate(processes, 1)}
            made = {one.pid: call(one, 3) for one in processes}
            code, _, said = end(tracer)
        assert code == 0, said
        assert calls(output.read_text()) == made
        for process, was in zip(processes, before, strict=True):
            assert attached.differences(was, process.pid) == []
            assert attached.finish(process)[0] == 7


def test_each_line_names_its_process(tmp_path: Path) -> None:
    output = tmp_path / "text"
    with running(2) as processes, tracing(*CALLS, "-o", str(output), "-p", pids(processes)) as one:
        await_hooks(processes)
        made = [call(process, 5) for process in processes]
        assert end(one)[0] == 0
        lines = [line for line in output.read_text().splitlines() if "getppid" in line]
        shown = Counter(line.split("]")[0] for line in lines)
        expected = zip(processes, made, strict=True)
        assert shown == {f"[pid {process.pid}": count for process, count in expected}


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", ["-c", "--count-only"])
def test_a_table_is_that_of_the_sum(mode: str, tmp_path: Path) -> None:
    output = tmp_path / "table.json"
    with running(3) as processes:
        words = [*CALLS, mode, "--json", "-o", str(output), "-p", pids(processes)]
        with tracing(*words) as tracer:
            await_hooks(processes)
            made = sum(call(one, 100 * at) for at, one in enumerate(processes, 1))
            assert end(tracer)[0] == 0
    rows = json.loads(output.read_text())["rows"]
    assert [(row["symbol"], row["calls"]) for row in rows] == [("getppid", made)]


def test_a_recording_has_all_of_them(tmp_path: Path) -> None:
    record = tmp_path / "run.sosr"
    words = [*CALLS, "--record", str(record), "-p"]
    with running(2) as processes, tracing(*words, pids(processes)) as tracer:
        await_hooks(processes)
        made = {one.pid: call(one, 7 * at) for at, one in enumerate(processes, 1)}
        assert end(tracer)[0] == 0
    command = [sys.executable, "-m", "soscope", "report", str(record)]
    json_lines = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert calls(json_lines.stdout) == made
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert all(line.startswith("[pid ") for line in text.splitlines() if "getppid" in line)


def test_one_that_ends_does_not_disturb_the_others(tmp_path: Path) -> None:
    output = tmp_path / "calls.jsonl"
    with running(3) as processes:
        words = [*CALLS, "--json", "-o", str(output), "-p", pids(processes)]
        with tracing(*words) as tracer:
            await_hooks(processes)
            for process in processes:
                call(process, 4)
            first, second, third = processes
            assert attached.finish(first)[0] == 7
            second.kill()
            second.wait()

            def both_are_noticed() -> bool:
                call(third, 1)
                return output.read_text().count('"type":"exit"') == 2

            until(both_are_noticed, "soscope notices both ends")
            made = call(third, 5)
            code, _, said = end(tracer)
        assert attached.finish(third)[0] == 7
    assert code == 0, said
    assert calls(output.read_text()) == {first.pid: 4, second.pid: 4, third.pid: made}
    for process in (first, second):
        assert f"soscope: process {process.pid} has ended" in said


def test_the_trace_ends_with_the_last_of_them() -> None:
    with running(2) as processes, tracing(*CALLS, "-c", "-p", pids(processes)) as tracer:
        await_hooks(processes)
        for process in processes:
            assert attached.finish(process)[0] == 7
        _, said = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, said


def test_one_that_cannot_be_traced_is_said(tmp_path: Path) -> None:
    output = tmp_path / "calls.jsonl"
    gone = subprocess.Popen(["true"])
    gone.wait()
    with running(2) as processes:
        words = [f"{processes[0].pid},{gone.pid},{processes[1].pid}"]
        words = [*CALLS, "--json", "-o", str(output), "-p", *words]
        with tracing(*words) as tracer:
            await_hooks(processes)
            made = {one.pid: call(one, 6) for one in processes}
            code, _, said = end(tracer)
    assert (code, calls(output.read_text())) == (1, made)
    assert f"soscope: not traced: no process {gone.pid}\n" in said


def test_none_that_can_be_traced_is_an_error() -> None:
    gone = [subprocess.Popen(["true"]) for _ in range(2)]
    for one in gone:
        one.wait()
    with tracing("-p", ",".join(str(one.pid) for one in gone)) as tracer:
        _, said = tracer.communicate(timeout=limit())
    assert tracer.returncode == 4
    assert f"error: no process {gone[0].pid}\n" in said


def test_duration_is_for_all_of_them() -> None:
    with running(2) as processes:
        before = [attached.snapshot(one.pid) for one in processes]
        with tracing("-c", "--duration", "100ms", "-p", pids(processes)) as tracer:
            _, said = tracer.communicate(timeout=limit())
        assert tracer.returncode == 0, said
        for process, was in zip(processes, before, strict=True):
            assert attached.differences(was, process.pid) == []


def test_children_of_all_of_them_are_followed(tmp_path: Path) -> None:
    output = tmp_path / "calls.jsonl"
    with running(2) as processes:
        words = [*CALLS, "-f", "--json", "-o", str(output), "-p", pids(processes)]
        with tracing(*words) as tracer:
            await_hooks(processes)
            made = {one.pid: call(one, 2) for one in processes}
            for at, process in enumerate(processes, 1):
                call(process, -10 * at)
            code, _, said = end(tracer)
        assert [attached.finish(one)[0] for one in processes] == [7, 7]
    assert code == 0, said
    found = calls(output.read_text())
    parents = {pid: found.pop(pid) for pid in made}
    assert parents == made
    assert sorted(found.values()) == [10, 20]


def test_a_killed_soscope_lets_go_of_all_of_them() -> None:
    """Each helper ends with soscope, whatever others have inherited of its socket."""
    with running(3) as processes, tracing(*CALLS, "-f", "-c", "-p", pids(processes)) as tracer:
        await_hooks(processes)
        until(lambda: all(tracer_of(one.pid) for one in processes), "a helper traces each")
        tracer.kill()
        tracer.wait()
        until(lambda: not any(tracer_of(one.pid) for one in processes), "nobody traces them")
        for process in processes:
            assert call(process, 3) == 3


def tracer_of(pid: int) -> int:
    return int(status.read_status(pid)["TracerPid"])


# ---- by name ---------------------------------------------------------------


def named(folder: Path, name: str) -> Path:
    return Path(shutil.copy(build.program("on_demand"), folder / name))


def told(words: Sequence[str]) -> tuple[int, str]:
    with tracing(*words) as tracer:
        _, said = tracer.communicate(timeout=limit())
    return tracer.returncode, said


def test_a_process_is_found_by_its_name(tmp_path: Path) -> None:
    long = f"a-name-of-many-letters-{os.getpid()}"  # comm has 15 of them
    with running(1, named(tmp_path, long)) as (process,):
        code, said = told(["-c", "--duration", "50ms", "-p", long])
        assert code == 0, said
        comm = Path(f"/proc/{process.pid}/comm").read_text().strip()
        assert len(comm) == 15
        code, said = told(["-c", "--duration", "50ms", "-p", comm])
        assert code == 0, said


def test_a_name_of_several_is_refused_with_all_of_them(tmp_path: Path) -> None:
    name = f"twin{os.getpid()}"
    with running(2, named(tmp_path, name)) as processes:
        code, said = told(["-p", name])
        assert code == 1
        assert f"error: 2 processes are called '{name}'\n" in said
        numbers = sorted(process.pid for process in processes)
        assert f"all of them: -p {numbers[0]},{numbers[1]};" in said
        for number in numbers:
            assert f"-p {number}  {tmp_path}"[:60] in said


def test_a_name_of_nobody_is_said() -> None:
    code, said = told(["-p", f"nobody{os.getpid()}"])
    assert code == 4
    assert f"error: no process is called 'nobody{os.getpid()}'\n" in said
