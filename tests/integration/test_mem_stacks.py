# SPDX-License-Identifier: Apache-2.0
"""Native stacks of blocks, against backtrace(3) in the program itself.

The programs print the stack of each block that they keep, by its size.
"""

from __future__ import annotations

import os
import re
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from soscope.frames.names import stack_at
from soscope.instruments.mem.lifetimes import MatchedBlocks, collect
from soscope.recording.names import in_image
from soscope.recording.reader import RecordingFile
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE, built, recorded
from tests.support.targets.build import made, made_in
from tests.support.targets.stackprograms import TARGETS, stack_program

MOST = 64
COROUTINES = {451, 452}  # of stacks.c

Stacks = dict[int, set[tuple[int, ...]]]


def told(output: str) -> Stacks:
    """Return what a program says of its stacks, by size.

    A handler's caller is no frame of ours; behind it stands what was interrupted, which is named as
    if a call stood in front of the next byte. Neither is what a coroutine returns to: no call is
    in front of it.
    """
    restorer = re.search("^restorer (.*)$", output, re.MULTILINE)
    stacks: Stacks = defaultdict(set)
    for line in output.splitlines():
        kind, *words = line.split()
        if kind != "stack":
            continue
        frames = [int(word, 16) for word in words[1:]]
        if restorer and (addr := int(restorer[1], 16)) in frames:
            at = frames.index(addr)
            frames[at : at + 2] = [frames[at + 1] + 1]
        if int(words[0]) in COROUTINES:
            frames.pop()
        stacks[int(words[0])].add(tuple(frames[1:MOST]))
    return stacks


def seen(path: Path) -> Stacks:
    """Return the stacks of a recording, by size, without the function that was called."""
    stacks: Stacks = defaultdict(set)
    with RecordingFile.open(str(path)) as recording:
        events = collect(recording)
        blocks = MatchedBlocks(events)
        for size, number, thread in zip(blocks.size, blocks.stack, blocks.thread, strict=True):
            program = recording.programs[events.threads[thread][0]]
            _, addrs, is_cut = stack_at(program, int(number))
            assert is_cut == (len(addrs) == MOST) or len(addrs) == MOST
            stacks[int(size)].add(tuple(in_image(addr)[1] for addr in addrs[1:]))
    return stacks


def compare(tmp_path: Path, command: list[str], sizes: int) -> None:
    """Record a program, and compare its stacks with its own account."""
    words = [*SOSCOPE, "mem", "run", "--blocks", "-o", str(tmp_path / "run.sosr"), "--", *command]
    done = run(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    truth, stacks = told(done.stdout), seen(tmp_path / "run.sosr")
    assert len(truth) == sizes
    for size, frames in truth.items():
        assert frames <= stacks[size], size


BUILDS = {
    "gcc": ["gcc", "-O2", "-fomit-frame-pointer"],
    "clang": ["clang", "-O2", "-fomit-frame-pointer"],
    "frame pointers": ["gcc", "-O1", "-fno-omit-frame-pointer"],
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", BUILDS)
def test_stacks_are_those_of_backtrace(name: str, tmp_path: Path) -> None:
    compiler, *flags = BUILDS[name]
    compare(tmp_path, stack_program(compiler, *flags), 31)


@pytest.mark.parametrize("flags", ["-O2", "-O0 -fno-omit-frame-pointer"])
def test_stacks_are_right_while_exceptions_pass(flags: str, tmp_path: Path) -> None:
    folder = made({}, f"g++ {flags} -w {TARGETS / 'stacks_throw.cc'} -o throw")
    compare(tmp_path, [str(folder / "throw")], 13)


CHAIN = """
__attribute__((noinline)) void *c(int n) { void *p = malloc(n); __asm__ volatile(""); return p; }
__attribute__((noinline)) void *b(int n) { void *p = c(n); __asm__ volatile(""); return p; }
__attribute__((noinline)) void *a(int n) { void *p = b(n); __asm__ volatile(""); return p; }
int main(void) { return !(a(1234) && a(1234)); }
"""
NO_FP = ("-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls")
NO_TABLES = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables")


def names(report: dict[str, Any]) -> list[list[str]]:
    """Return the functions of the stack of each row of 1234 bytes."""
    rows = [row for row in report["native"] if row["bytes"] == 1234 * row["count"]]
    return [[frame["symbol"] for frame in row["frames"]] for row in rows]


def test_frame_pointers_are_followed_where_there_are_no_tables(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("pointers_only.c", CHAIN, *NO_TABLES)])
    (stack,) = {tuple(stack) for stack in names(report)}
    assert stack[:4] == ("c", "b", "a", "main")
    assert stack[-1] == "_start"


def test_code_without_either_ends_a_stack(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("neither.c", CHAIN, *NO_FP, *NO_TABLES)])
    assert {stack[0] for stack in names(report)} == {"c"}


ASSEMBLY = """
__asm__(".globl plain\\nplain: push %rbx; push %rbp; mov %rsi, %rbp; sub $40, %rsp;"
        "call malloc@PLT; add $40, %rsp; pop %rbp; pop %rbx; ret\\n.type plain, @function\\n"
        ".size plain, . - plain");
void *plain(long size, uint64_t fp);
int main(void)
{
    uint64_t here[4] = {(uint64_t)here + 16, (uint64_t)main, (uint64_t)here, 7};
    uint64_t garbage[] = {0, 1, 8, -8, -16, 1ull << 47, (1ull << 47) - 16, (uint64_t)here,
                          (uint64_t)here + 8, (uint64_t)here + (64 << 20), (uint64_t)main};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < (int)(sizeof garbage / sizeof *garbage); i++)
            if (!plain(1234, garbage[i]))
                return 2;
    return 0;
}
"""


def test_assembly_without_tables_ends_a_stack(tmp_path: Path) -> None:
    report, _ = recorded(tmp_path, [built("assembly.c", ASSEMBLY)])
    stacks = names(report)
    assert {stack[0] for stack in stacks} == {"plain"}
    rows = [row for row in report["native"] if row["bytes"] == 1234 * row["count"]]
    assert sum(row["count"] for row in rows) == 33


def test_stacks_of_musl_programs(tmp_path: Path) -> None:
    source, program = tmp_path / "chain.c", tmp_path / "chain"
    source.write_text(f"#include <stdlib.h>\n{CHAIN}")
    words = ["musl-gcc", *NO_FP, "-g", "-Wl,--eh-frame-hdr"]  # which it leaves out
    made_in(tmp_path, *words, source, "-o", program)
    report, _ = recorded(tmp_path, [str(program)])
    assert {tuple(stack[:4]) for stack in names(report)} == {("c", "b", "a", "main")}


@pytest.mark.parametrize(
    "command", [["sqlite3", ":memory:", "select 1"], ["perl", "-e", "$x = 'a' x 1000"]]
)
def test_stacks_of_programs_reach_their_start(command: list[str], tmp_path: Path) -> None:
    program = need(command[0])
    report, _ = recorded(tmp_path, [program, *command[1:]])
    with open(program, "rb") as file:
        entry = struct.unpack_from("<Q", file.read(64), 24)[0]
    ends = [row["frames"][-1] for row in report["native"]]
    assert ends
    for frame in ends:
        if frame["symbol"] is None:
            assert frame["image"] == os.path.basename(program)
            assert entry < frame["offset"] < entry + 64
        else:
            assert frame["symbol"] in ("_start", "_dl_start_user")
