# SPDX-License-Identifier: Apache-2.0
"""soscope prof --sample: stacks of threads, against what the programs say of themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.samples import add_samples
from soscope.instruments.prof.sampling.instrument import SamplerProcess
from tests.support.machines.pythons import DISTRIBUTION, few_pythons
from tests.support.processes.run import soscope
from tests.support.processes.sampled import last_words, missed_ns, sampled
from tests.support.targets import build
from tests.support.time.patience import limit, until
from tests.support.time.progress import state

FUNCTIONS = ("often_called", "seldom_called")
HOT = """
import sys, time, zlib

data = bytes(range(256)) * 400

def packs():
    zlib.compress(data, 6)

def adds():
    total = 0
    for number in range(20000):
        total += number

def both(function, end):
    begun = time.thread_time()
    while time.thread_time() < begun + end:
        function()

print("begun", flush=True)
sys.stdin.readline()
both(packs, 0.6)
both(adds, 0.2)
"""
HOT_LINES = ("both(packs, 0.6)", "both(adds, 0.2)")


def function_of(sample: dict[str, Any]) -> str:
    symbols = [frame["symbol"] for frame in sample["frames"]]
    return next((symbol for symbol in symbols if symbol in FUNCTIONS), "")


Shares = dict[tuple[int, str], int]  # ns by thread and function


def truth_of(out: str) -> Shares:
    """Return what `shares` says of itself: for how long it has run, by the clocks of threads."""
    rows = [line.split() for line in out.splitlines()]
    truth = {(int(tid), function): int(ns) for tid, _, function, ns in rows}
    assert len(truth) == 6
    return truth


def assert_account(out: str, seen: Counter[tuple[int, str]], missed: int) -> None:
    """Compare samples with what `shares` says of itself, as far as that holds at any load."""
    truth = truth_of(out)
    # nothing gets lost without a word
    whole = sum(truth.values())
    assert abs(seen.total() + missed - whole) < whole / 5
    for tid in {tid for tid, _ in truth}:
        first, second = (truth[tid, function] for function in FUNCTIONS)
        if max(first, second) > 2 * min(first, second):
            first_seen, second_seen = (seen[tid, function] for function in FUNCTIONS)
            assert (first > second) == (first_seen > second_seen)
        assert any(seen[tid, function] for function in FUNCTIONS)


def assert_shares(out: str, seen: Counter[tuple[int, str]], missed: int) -> None:
    """Compare the shares as well: they are those of the program where little was missed."""
    assert_account(out, seen, missed)
    truth = truth_of(out)
    for (tid, function), ns in truth.items():
        of_thread = sum(truth[tid, other] for other in FUNCTIONS)
        seen_in_thread = sum(seen[tid, other] for other in FUNCTIONS)
        assert seen_in_thread > of_thread / 2
        assert seen[tid, function] / seen_in_thread == pytest.approx(ns / of_thread, abs=0.1)


# a processor that others want gives few samples, at moments of its own: shares need quiet seconds
SPANS = [
    pytest.param("600", assert_account, id="account"),
    pytest.param("5000", assert_shares, id="shares", marks=pytest.mark.soak),
]
Assert = Callable[[str, Counter[tuple[int, str]], int], None]


@pytest.mark.every(3)
@pytest.mark.parametrize(("span", "check"), SPANS)
@pytest.mark.parametrize("options", [[], ["--boundary", "time"], ["-f"]])
def test_shares_of_functions_in_three_threads(options: list[str], span: str, check: Assert) -> None:
    program = build.program("shares")
    command = ["/bin/sh", "-c", f"{program} {span}; true"] if "-f" in options else [program, span]
    done = soscope("prof", "run", "-q", "--sample", "300", *options, "--json", *command)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stderr)
    assert said["sample_ns"] == pytest.approx(3_333_333, rel=0.02)
    seen: Counter[tuple[int, str]] = Counter()
    for sample in said["samples"]:
        seen[sample["thread"], function_of(sample)] += sample["weight"] * said["sample_ns"]
    check(done.stdout, seen, missed_ns(said["notes"]))
    ends = {sample["frames"][-1]["symbol"] for sample in said["samples"] if function_of(sample)}
    assert ends <= {"__clone3", "clone3", "clone", "__clone", None}, "each stack is whole"


@pytest.mark.parametrize(("span", "check"), SPANS)
def test_shares_where_the_kernel_does_not_help(span: str, check: Assert) -> None:
    sampler = SamplerProcess(300, asks_kernel=False)
    with subprocess.Popen(
        [build.program("shares"), span], stdout=subprocess.PIPE, text=True
    ) as program:
        sampler.add(program.pid)
        out, _ = program.communicate(timeout=limit())
    profile = Profile([])
    add_samples(last_words(sampler, program.pid), profile)
    seen: Counter[tuple[int, str]] = Counter()
    for sample in profile.samples:
        symbols = [frame.symbol for frame in sample.frames]
        function = next((symbol for symbol in symbols if symbol in FUNCTIONS), "") or ""
        seen[profile.threads[sample.thread].tid, function] += sample.weight * (
            profile.sample_ns or 0
        )
    check(out, seen, missed_ns(profile.notes))


def test_frames_of_python_stand_among_those_of_c() -> None:
    profile = Profile([])
    add_samples(sampled([DISTRIBUTION, "-c", HOT]), profile)
    by_line: Counter[int | None] = Counter()
    for sample in profile.samples:
        symbols = [frame.symbol for frame in sample.frames]
        images = [frame.image or "" for frame in sample.frames]
        own = [symbol for symbol, image in zip(symbols, images, strict=True) if not image]
        if own[-2:] == ["both", "<module>"]:  # the line says for which of the two it is
            (line,) = {frame.line for frame in sample.frames if frame.symbol == "<module>"}
            by_line[line] += sample.weight
        for name in ("packs", "adds"):
            if name in own:
                assert own[own.index(name) :] == [name, "both", "<module>"]
                assert not any(image.startswith("libz") for image in images[symbols.index(name) :])
                assert images[-1], "the interpreter itself was called by C code"
        if any(image.startswith("libz") for image in images):
            assert "packs" in own
    packs, adds = (HOT.splitlines().index(line) + 1 for line in HOT_LINES)
    assert by_line.keys() == {packs, adds}
    assert not [note for note in profile.notes if "read in time" in note], "the kernel takes none"
    assert by_line[packs] > by_line[adds]  # three times as long


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons()[1:])
def test_frames_of_other_versions_of_python(python: str) -> None:
    frames: list[Any] = []
    stacks: list[Any] = []
    counts: Counter[int] = Counter()
    for block in sampled([python, "-c", HOT]):
        frames += block.get("frames", ())
        stacks += block.get("stacks", ())
        for _, stack, count in block["counts"]:
            counts[stack] += count
    whole, seen = 0, 0
    for number, count in counts.items():
        is_whole, *stack = stacks[number]
        whole += count if is_whole else 0
        own = [frames[frame] for frame in stack if isinstance(frames[frame][0], str)]
        names = [frame[0] for frame in own]
        # it asks for its time itself, too, which takes what the machine likes
        seen += count if names[-2:] == ["both", "<module>"] else 0
        for function, lines in (("packs", range(6, 8)), ("adds", range(9, 13))):
            if function in names:
                assert own[0][:2] == [function, "<string>"]
                assert own[0][2] in lines
                assert names == [function, "both", "<module>"]
    assert min(whole, seen) > 0.9 * counts.total()


def test_no_call_is_disturbed_and_no_signal_lost() -> None:
    seen = 0
    while seen <= 100:  # how often it is stopped in a run depends on the load
        with subprocess.Popen(
            [build.program("disturbed"), "150"], stdout=subprocess.PIPE, text=True
        ) as program:
            sampler = SamplerProcess(1000, asks_kernel=False)
            sampler.add(program.pid)
            out, _ = program.communicate(timeout=limit())
        blocks = last_words(sampler, program.pid)
        assert (program.returncode, out) == (0, "wrong 0 signals 400\n")
        of_run = sum(count for block in blocks for _, _, count in block["counts"])
        assert of_run, "it is not sampled at all"
        seen += of_run


def test_a_process_that_is_not_there_is_said_to_be_so() -> None:
    sampler = SamplerProcess(100)
    with subprocess.Popen([sys.executable, "-c", ""]) as program:
        program.wait()
        sampler.add(program.pid)
    assert sampler.end() == []


def test_a_program_that_another_makes_way_for_is_seen() -> None:
    first = "import os, sys\nfor _ in range(1000000): pass\nos.execv(sys.executable, sys.argv[1:])"
    sampler = SamplerProcess(500)
    with subprocess.Popen(
        [DISTRIBUTION, "-c", first, DISTRIBUTION, "-c", HOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        sampler.add(program.pid)
        assert program.stdout.readline() == "begun\n"
        time.sleep(0.5)  # the look at the images is due when it runs again: they come every 250 ms
        program.stdin.write("go\n")
        program.stdin.close()
        assert program.wait(timeout=limit()) == 0
    frames = [
        frame for block in last_words(sampler, program.pid) for frame in block.get("frames", ())
    ]
    assert {frame[0] for frame in frames} >= {"<module>", "both", "packs", "adds"}


def test_a_sampler_that_was_killed_is_said_to_be_so() -> None:
    sampler = SamplerProcess(100)
    os.kill(sampler.pid, signal.SIGKILL)
    os.waitid(os.P_PID, sampler.pid, os.WEXITED | os.WNOWAIT)
    assert sampler.end() == []
    assert sampler.has_failed
    sampler = SamplerProcess(100)
    assert sampler.end() == []
    assert not sampler.has_failed


def test_the_sampler_ends_with_soscope(tmp_path: Path) -> None:
    code = (
        "from soscope.instruments.prof.sampling.instrument import SamplerProcess\n"
        "import os, time\n"
        "print(SamplerProcess(100).pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as program:
        assert program.stdout is not None
        sampler = int(program.stdout.readline())
        program.kill()
    until(lambda: state(sampler) in {"", "Z"}, "it has ended; nobody waits for orphans here")
