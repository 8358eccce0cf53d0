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
from tests.support.targets import build
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import until

TARGET = REPOSITORY / "tests" / "targets" / "mem" / "rbstacks.rb"
RELEASED = TARGET.with_name("rbreleased.rb")
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


@pytest.fixture
def library(ruby: str) -> str:
    """Return an extension that lets go of the GVL, for a Ruby whose frames are known then."""
    version = run([ruby, "-e", "print RUBY_VERSION"]).stdout
    if not "3.0" <= version < "3.4":
        pytest.skip(f"Ruby {version}: its threads have no frames without the GVL")
    words = [need("gcc"), "-O1", "-g", "-w", "-shared", "-fPIC"]
    return str(build.compiled("released.so", words, [RELEASED.with_name("lib_released.c")]))


@pytest.mark.every(2)
@pytest.mark.parametrize("how", ["", "kill"])
def test_an_extension_without_the_lock(ruby: str, library: str, how: str, tmp_path: Path) -> None:
    done = record(tmp_path, ruby, str(RELEASED), library, "cases", how)
    assert done.returncode == (-9 if how else 0), done.stderr
    truth = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(truth) == 9
    stacks = frames_of(tmp_path / "run.sosr")
    for size, frames in truth:
        assert stacks[size], size
        for found in stacks[size]:
            assert found == frames[:MOST], size


@pytest.mark.every(3, always=("100",))
@pytest.mark.parametrize("storm", ["2 200 compact", "100 8 compact", "8 40 auto", "2 8 stress"])
def test_no_line_is_wrong_while_code_is_moved(
    ruby: str, library: str, storm: str, tmp_path: Path
) -> None:
    words = storm.split()
    done = record(tmp_path, ruby, "-W0", str(RELEASED), library, "storm", *words)
    if done.returncode and "NotImplementedError" in done.stderr:
        pytest.skip("a Ruby that moves nothing")
    assert done.returncode == 0, done.stderr
    stacks = frames_of(tmp_path / "run.sosr")
    known = 0
    for line in done.stdout.splitlines():
        size, (frame,) = json.loads(line)
        assert len(stacks[size]) % 3 == 0
        assert stacks[size], size
        for innermost, *_ in stacks[size]:
            assert innermost in (frame, [None, None, None])
            known += innermost == frame
    turns = int(words[0]) * int(words[1])
    assert known > 3 * turns // 2


@pytest.mark.every(2)
@pytest.mark.parametrize("verb", ["attach", "snapshot", "live", "leaks"])
def test_a_visit_knows_lines_without_the_lock(
    ruby: str, library: str, verb: str, tmp_path: Path
) -> None:
    (line,) = [
        number
        for number, text in enumerate(RELEASED.read_text().splitlines(), 1)
        if text.endswith("# grow")
    ]
    file = str(tmp_path / "visit.sosr")
    with running([ruby, str(RELEASED), library, "grow"]) as process:
        visit = ["mem", verb, "-p", str(process.pid)]
        words = {
            "attach": ["--blocks", "-q", "-o", file, "--duration", "500ms"],
            "snapshot": ["--blocks", "--duration", "500ms", "--json"],
            "live": ["--blocks", "--duration", "500ms", "--json"],
            "leaks": ["--older", "50ms", "--duration", "500ms", "--json"],
        }[verb]

        def stands_at_its_line() -> bool:
            done = run([*SOSCOPE, *visit, *words])
            assert done.returncode == 0, done.stderr
            if verb == "attach":
                done = run([*SOSCOPE, "mem", "report", "--json", file])
            taken = [
                row["frames"]
                for row in json.loads(done.stdout)["rows" if verb == "live" else "native"]
                if "take_blocks" in [frame["symbol"] for frame in row["frames"]]
            ]
            for frames in taken:
                innermost = next(frame for frame in frames if frame["image"] is None)
                told = [innermost[key] for key in ("symbol", "file", "line")]
                assert told == ["block in grow", str(RELEASED), line]
            return bool(taken)

        until(stands_at_its_line, "the program takes some blocks")


def test_ractors_without_the_lock(ruby: str, library: str, tmp_path: Path) -> None:
    script = tmp_path / "ractors.rb"
    script.write_text(
        "exit 3 unless defined?(Ractor)\n"
        "require ARGV[0]\n"
        "workers = 3.times.map do |number|\n"
        "  Ractor.new(number) do |mine|\n"
        "    200.times { 'x' * 5000; Released.take(62_001 + mine, 5) }\n"
        "  end\n"
        "end\n"
        "workers.each { |worker| worker.respond_to?(:value) ? worker.value : worker.take }\n"
    )
    done = record(tmp_path, ruby, "-W0", str(script), library)
    if done.returncode == 3:
        pytest.skip("a Ruby without Ractors")
    assert done.returncode == 0, done.stderr
    stacks = frames_of(tmp_path / "run.sosr")
    for number in range(3):
        found = [frames for frames in stacks[62_001 + number] if frames[0][0] is not None]
        assert len(found) > 500
        for frames in found:
            assert frames[0] == ["block (3 levels) in <main>", str(script), 5]


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
        words = ("snapshot", "-p", str(process.pid), "--blocks", "--duration", "500ms", "--json")

        def stands_at_its_line() -> bool:
            done = run([*SOSCOPE, "mem", *words])
            assert done.returncode == 0, done.stderr
            blocks = [row for row in json.loads(done.stdout)["native"] if row["count"] > 5]
            frames = [frame for row in blocks for frame in row["frames"]]
            lines = {(frame["file"], frame["line"]) for frame in frames if frame["image"] is None}
            return (str(script), 5) in lines

        for _ in range(3):
            until(stands_at_its_line, "the program makes some blocks")
