# SPDX-License-Identifier: Apache-2.0
"""soscope prof --sample -f: frames of Python in children, against what each says of itself."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.machines.pythons import DISTRIBUTION
from tests.support.processes import attached
from tests.support.processes.run import soscope
from tests.support.processes.sampled import missed_ns
from tests.support.targets import build
from tests.support.time.patience import limit

PROGRAM = """
import os, sys, threading, time

def runs(function, share):
    begun = time.thread_time()
    function(share)
    told = f"{threading.get_native_id()} {function.__name__} {time.thread_time() - begun}\\n"
    os.write(1, told.encode())

def spins(share):
    end = time.thread_time() + share
    while time.thread_time() < end:
        sum(range(500))

def often(share):
    spins(share)

def seldom(share):
    spins(share)

def work():
    runs(often, 0.24)
    runs(seldom, 0.06)

def child(then):
    pid = os.fork()
    if not pid:
        then()
        os._exit(0)
    return pid

def with_thread():
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

if sys.argv[1:] == ["again"]:
    os.write(1, b"begun\\n")
    work()
else:
    os.write(1, b"begun\\n")
    sys.stdin.readline()
    children = [
        child(work),
        child(with_thread),
        child(lambda: os.execv(sys.executable, [sys.executable, __file__, "again"])),
    ]
    work()
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
"""
FUNCTIONS = ("often", "seldom")
PROF = [sys.executable, "-m", "soscope", "prof"]


def written(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def assert_account(out: str, said: dict[str, Any]) -> None:
    rows = [line.split() for line in out.splitlines() if line != "begun"]
    truth = {(int(tid), function): float(share) * 1e9 for tid, function, share in rows}
    assert len(truth) == 8
    seen: Counter[tuple[int, str]] = Counter()
    for sample in said["samples"]:
        own = [frame["symbol"] for frame in sample["frames"]]
        for function in FUNCTIONS:
            if function in own:
                seen[sample["thread"], function] += sample["weight"] * said["sample_ns"]
                rest = own[own.index(function) :]
                assert [name for name in rest if name in {"runs", "work"}] == ["runs", "work"]
    assert {tid for tid, _ in seen} == {tid for tid, _ in truth}
    # where processors are busy a thread's samples are few: all of them together say who took more
    often, seldom = (
        sum(seen[key] for key in truth if key[1] == function) for function in FUNCTIONS
    )
    assert often > seldom  # four times as long
    # nothing gets lost without a word; the rest of each thread's time is not looked at
    missed = missed_ns(said["notes"])
    assert seen.total() + missed > 0.8 * sum(truth.values())


def test_children_of_a_command(tmp_path: Path) -> None:
    command = f"echo | {DISTRIBUTION} {written(tmp_path)}; true"
    done = soscope("prof", "run", "-q", "-f", "--sample", "300", "--json", "/bin/sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert_account(done.stdout, json.loads(done.stderr))


def test_children_of_a_running_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [DISTRIBUTION, written(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        what = ["--sample", "300", "--boundary", "count", "-f"]
        with subprocess.Popen(
            [*PROF, "attach", "--json", *what, "-p", str(program.pid)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as observer:
            attached.assert_it_profiles(observer, program.pid)
            told, _ = program.communicate("go\n", timeout=limit())
            said, _ = observer.communicate(timeout=limit())
    assert program.returncode == 0
    assert_account(told, json.loads(said))


def test_no_call_in_a_child_is_disturbed_and_no_signal_lost() -> None:
    code = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    program = [str(build.program("disturbed")), "80"]
    words = ("prof", "run", "-f", "--sample", "1000", "--json", DISTRIBUTION, "-c", code)
    seen = 0
    while seen <= 50:  # how often it is stopped in a run depends on the load
        done = soscope(*words, *program)
        assert (done.returncode, done.stdout) == (0, "wrong 0 signals 400\n")
        said = json.loads(done.stderr.split("\nsoscope: ")[0])
        of_run = sum(sample["weight"] for sample in said["samples"])
        assert of_run, "it is not sampled at all"
        seen += of_run


def test_children_outlive_a_soscope_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PROF, "run", "-f", "--sample", "1000", DISTRIBUTION, written(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as observer:
        assert observer.stdin is not None
        assert observer.stdout is not None
        assert observer.stdout.readline() == "begun\n"
        observer.stdin.write("go\n")
        observer.stdin.flush()
        told: list[str] = []
        while not told or told[-1] != "begun\n":  # until then a new program ends with soscope
            told.append(observer.stdout.readline())
            assert told[-1], "it has ended"
        observer.send_signal(signal.SIGKILL)
        told += observer.stdout.read().splitlines()
    assert len(told) == 8 + 1, "each did all that it had to do"
