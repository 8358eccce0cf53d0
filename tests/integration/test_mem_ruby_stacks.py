# SPDX-License-Identifier: Apache-2.0
"""The frames of Ruby in stacks of blocks, against what Ruby says itself."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_mem_python_stacks import frames_of
from tests.support.machines.tools import need
from tests.support.processes.attached import running
from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import until

TARGET = REPOSITORY / "tests" / "targets" / "mem" / "rbstacks.rb"
MOST = 64
EVALUATOR = "rb_vm_exec"


@pytest.fixture
def ruby() -> str:
    return os.environ.get("SOSCOPE_RUBY") or need("ruby")


def record(
    tmp_path: Path, *words: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    file = str(tmp_path / "run.sosr")
    return run([*SOSCOPE, "mem", "run", "-f", "--blocks", *options, "-o", file, "--", *words])


def report(tmp_path: Path) -> dict[str, Any]:
    # Ruby itself has 17,000 rows, most of them smaller than those of the programs here
    words = ["mem", "report", "--json", "--limit", "3000"]
    shown = run([*SOSCOPE, *words, str(tmp_path / "run.sosr")])
    document: dict[str, Any] = json.loads(shown.stdout)
    return document


def is_own(frame: list[object]) -> bool:
    """Return whether a frame is of a method of Ruby's own that is written in Ruby."""
    return str(frame[1]).startswith("<internal:")


@pytest.mark.every(2)
@pytest.mark.parametrize("how", ["", "kill"])
def test_frames_are_those_of_ruby(ruby: str, how: str, tmp_path: Path) -> None:
    done = record(tmp_path, ruby, str(TARGET), how)
    assert done.returncode == (-9 if how else 0), done.stderr
    truth = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(truth) > 300
    stacks = frames_of(tmp_path / "run.sosr")
    for size, frames in truth:
        found = [[frame for frame in stack if not is_own(frame)] for stack in stacks[size]]
        is_cut = max(map(len, stacks[size]), default=0) == MOST
        assert (frames[: len(found[0])] if is_cut else frames) in found, size


def test_frames_lie_where_the_evaluator_ran_them(ruby: str, tmp_path: Path) -> None:
    done = record(tmp_path, ruby, str(TARGET))
    assert done.returncode == 0, done.stderr
    order: dict[int, list[str]] = {}
    for row in report(tmp_path)["native"]:
        names = [frame["symbol"] if frame["image"] is None else "C" for frame in row["frames"]]
        order[row["bytes"]] = [name for name, _ in itertools.groupby(names)]
        if row["count"] == 1 and 10_000 < row["bytes"] < 10_400:
            assert row["frames"][-1]["symbol"] == "_start"
            assert EVALUATOR not in [frame["symbol"] for frame in row["frames"]]
    outer = ["all", "<main>", "C"]
    assert order[10_001] == ["C", "take", *outer]
    assert order[10_101] == ["C", "take", "inner", "nested", *outer]
    # Array#each and Array#map are written in C
    inner = ["C", "take", "block (2 levels) in blocks", "C", "block in blocks", "C"]
    assert order[10_201] == [*inner, "blocks", *outer]
    assert order[10_301] == ["C", "take", "block in all", "yielding", *outer]
    chain = ["recurse_in_c", "block in recurse_in_c", "C"] * 6
    assert order[30_001] == ["C", "take", *chain, "recurse_in_c", *outer]


EXTENSION_WITHOUT_LOCK = """
require "fiddle"
copy = Fiddle::Function.new(
  Fiddle::Handle::DEFAULT["strdup"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOIDP
)
$kept = [copy.call("x" * 9_000)]
"""


def test_who_does_not_hold_the_lock_has_none(ruby: str, tmp_path: Path) -> None:
    script = tmp_path / "copy.rb"
    script.write_text(EXTENSION_WITHOUT_LOCK)
    done = record(tmp_path, ruby, str(script))
    assert done.returncode == 0, done.stderr
    rows = [row["frames"] for row in report(tmp_path)["native"] if row["bytes"] == 9_001]
    (frames,) = [frames for frames in rows if "strdup" in str(frames[0]["symbol"])]
    assert "copy.rb" not in json.dumps(frames)


def test_sampled_blocks_have_them_too(ruby: str, tmp_path: Path) -> None:
    script = tmp_path / "big.rb"
    script.write_text("$kept = (0...200).map do\n  String.new(capacity: 100_000)\nend\n")
    options = ("--mode", "sample=64KiB", "--aggregate")
    done = record(tmp_path, ruby, str(script), options=options)
    assert done.returncode == 0, done.stderr
    lines = {
        (frame["symbol"], frame["file"], frame["line"])
        for row in report(tmp_path)["native"]
        if row["bytes"] > 10_000_000
        for frame in row["frames"]
        if frame["image"] is None
    }
    assert lines == {("block in <main>", str(script), 2), ("<main>", str(script), 1)}


def test_a_program_with_ractors(ruby: str, tmp_path: Path) -> None:
    script = tmp_path / "ractors.rb"
    script.write_text(
        "exit 3 unless defined?(Ractor)\n"
        "def make(size)\n  String.new(capacity: size - 1)\nend\n"
        "workers = 3.times.map do |number|\n"
        "  Ractor.new(number) do |mine|\n"
        "    500.times.map { |turn| make(60_001 + mine) if turn == 7; 'x' * 5000 }\n"
        "    make(61_001 + mine)\n"
        "  end\n"
        "end\n"
        "$kept = workers.map { |worker| worker.respond_to?(:value) ? worker.value : worker.take }\n"
    )
    done = record(tmp_path, ruby, "-W0", str(script))
    if done.returncode == 3:
        pytest.skip("a Ruby without Ractors")
    assert done.returncode == 0, done.stderr
    stacks = frames_of(tmp_path / "run.sosr")
    for number in range(3):
        (frames,) = stacks[61_001 + number]
        assert [frame[0] for frame in frames] == ["make", "block (2 levels) in <main>"]
        assert [frame[2] for frame in frames] == [3, 8]


GROWING = {
    "ruby": '$stdout.sync = true\nputs "ready"\n$kept = []\n'
    'loop do\n  $kept << "y" * 3000\n  sleep 0.002\nend\n',
    "python3": 'import time\nprint("ready", flush=True)\nkept = []\n'
    "while True:\n    kept.append(bytearray(3000))\n    time.sleep(0.002)\n",
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", GROWING)
def test_every_visit_knows_them(name: str, tmp_path: Path) -> None:
    script = tmp_path / "growing"
    script.write_text(GROWING[name])
    program = need("ruby") if name == "ruby" else "/usr/bin/python3"
    with running([program, str(script)]) as process:
        words = ("snapshot", "-p", str(process.pid), "--blocks", "--for", "500ms", "--json")

        def stands_at_its_line() -> bool:
            done = run([*SOSCOPE, "mem", *words])
            assert done.returncode == 0, done.stderr
            blocks = [row for row in json.loads(done.stdout)["native"] if row["count"] > 5]
            frames = [frame for row in blocks for frame in row["frames"]]
            lines = {(frame["file"], frame["line"]) for frame in frames if frame["image"] is None}
            return (str(script), 5) in lines

        for _ in range(3):
            until(stands_at_its_line, "the program makes some blocks")
