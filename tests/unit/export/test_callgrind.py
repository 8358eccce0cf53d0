# SPDX-License-Identifier: Apache-2.0
"""Profiles in callgrind's format, as callgrind_annotate reads them."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from soscope.export import callgrind
from soscope.export.profiles import ExportSettings
from soscope.instruments.prof.model import Profile, ProfSample
from soscope.model.call import StackFrame
from tests.support.files import profiles
from tests.support.machines.tools import need
from tests.support.processes.run import run

_COST = r"([\d,]+|\.)(?: \([ \d.]+%\))? +"
_CALLS = r"(?: \(([\d,]+)x\))?"


class Read:
    """Costs by function, own and inclusive ones, and calls with costs by caller and callee."""

    def __init__(self, profile: Profile, folder: Path) -> None:
        file = folder / "callgrind.out"
        with open(file, "wb") as stream:
            self.notes = callgrind.export_profile(profile, stream.write, ExportSettings())
        annotate = need("callgrind_annotate", "perl")
        done = run([annotate, "--auto=no", "--threshold=100", str(file)])
        assert (done.returncode, done.stderr) == (0, "")
        (self.events,) = re.findall(r"Events recorded:  (.+)", done.stdout)
        number = len(self.events.split())
        row = re.compile(rf" *{_COST * number}(\S*):(.+?) \[")
        self.own: dict[str, tuple[int, ...]] = {}
        for line in done.stdout.splitlines():
            if found := row.match(line):
                *costs, _, name = found.groups()
                self.own[name] = tuple(map(_number, costs))
        words = ["--inclusive=yes", "--tree=calling", "--auto=no", "--threshold=100"]
        done = run([annotate, *words, str(file)])
        assert (done.returncode, done.stderr) == (0, "")
        row = re.compile(rf" *{_COST * number}([*>]) +(\S*):(.+?){_CALLS} \[")
        self.inclusive: dict[str, tuple[int, ...]] = {}
        self.calls: dict[tuple[str, str], tuple[int, ...]] = {}
        caller = ""
        for line in done.stdout.splitlines():
            if not (found := row.match(line)):
                continue
            *costs, kind, _, name, calls = found.groups()
            if kind == "*":
                caller = name
                self.inclusive[name] = tuple(map(_number, costs))
            else:
                self.calls[caller, name] = (_number(calls), *map(_number, costs))


def _number(text: str) -> int:
    return 0 if text == "." else int(text.replace(",", ""))


def test_callgrind_has_inclusive_times_as_they_were(tmp_path: Path) -> None:
    read = Read(profiles.trees(), tmp_path)
    assert read.events == "ns"
    sums = zip(profiles.functions(), profiles.trees().sums, strict=True)
    for function, known in sums:
        assert read.own[function.symbol] == (known.self_ns or 0,)
        if known.total_ns is not None:
            assert read.inclusive[function.symbol] == (known.total_ns,)
    assert read.calls == {
        ("PyObject_Call", "parse"): (3, 10_000),
        ("(outside)", "parse"): (2, 6_000),
        ("parse", "step"): (30, 7_500),
        ("step", "mul"): (60, 3_000),
        ("PyObject_Call", "fib"): (1, 5_000),
        ("fib", "fib"): (8, 0),
    }
    assert read.notes == ["callgrind: all threads are added up"]


def test_callgrind_counts_calls_where_no_time_is_known(tmp_path: Path) -> None:
    read = Read(profiles.counted(), tmp_path)
    assert read.events == "Calls"
    assert read.own["step"] == (10_000_000_000,)
    assert read.own["fib"] == (9,)
    assert read.calls["parse", "step"] == (10_000_000_000, 10_000_000_000)


def test_samples_are_a_cost_of_their_own(tmp_path: Path) -> None:
    read = Read(profiles.both(), tmp_path)
    assert read.events == "ns Sampled"
    assert read.own["parse"] == (8_500, 50_000_000)
    assert read.own["run"] == (0, 20_000_000)
    assert read.inclusive["parse"] == (16_000, 50_000_000)
    assert read.inclusive["run"] == (0, 70_000_000)
    assert read.calls["main", "run"] == (7, 0, 70_000_000)
    assert "callgrind: of stacks that were sampled, calls= is the number of samples" in read.notes


def test_a_function_twice_in_a_sampled_stack_has_its_time_once(tmp_path: Path) -> None:
    profile = profiles.sampled()
    main = profile.samples[0].frames[-1]
    run_frame = profile.samples[0].frames[1]
    profile.samples[0].frames = (run_frame, main, run_frame, main)
    read = Read(profile, tmp_path)
    assert read.inclusive["main"] == (70_000_000,)
    assert read.inclusive["run"] == (70_000_000,)


@pytest.mark.parametrize("seed", range(4))
def test_inclusive_times_are_those_of_the_stacks_that_a_function_is_in(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    profile = profiles.sampled()
    frames = [StackFrame("lib.so", name, 8) for name in "abcde"]
    profile.samples = [
        ProfSample(chance.randrange(2), tuple(chance.choices(frames, k=chance.randint(1, 6))), 3)
        for _ in range(200)
    ]
    own: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for sample in profile.samples:
        names = [frame.symbol or "" for frame in sample.frames]
        own[names[0]] += 30_000_000
        inside.update(dict.fromkeys(names, 30_000_000))
    read = Read(profile, tmp_path)
    assert {name: cost for name, (cost,) in read.own.items() if cost} == own
    assert {name: read.inclusive[name] for name in "abcde"} == {
        name: (cost,) for name, cost in inside.items()
    }


def test_functions_of_one_name_stay_apart(tmp_path: Path) -> None:
    profile = profiles.trees()
    for function in profile.functions[1:]:
        function.symbol, function.file, function.image = "same", "same.c", "lib.so"
    profile.functions[2].addr = profile.functions[1].addr
    read = Read(profile, tmp_path)
    assert sorted(cost for (cost,) in read.own.values()) == [0, 0, 3_000, 4_500, 5_000, 8_500]
