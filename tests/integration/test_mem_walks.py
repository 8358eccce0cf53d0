# SPDX-License-Identifier: Apache-2.0
"""Walks over stacks whose frames lead out of the stack: the program lives, and is told no lies."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from soscope.binfmt.elf import constants as c
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.accounts import SOSCOPE

WAYS = {
    "exact": ["mem", "run", "--blocks", "--mode", "exact"],
    "sample": ["mem", "run", "--blocks", "--mode", "sample=1"],
    "trace": ["trace", "-k", "-e", "malloc"],
}


def hostile(name: str, *flags: str) -> str:
    """Return a program of tests/targets/hostile."""
    words = ["gcc", "-O1", "-g", "-pthread", *flags]
    return str(build.compiled(name, words, [build.TARGETS / "hostile" / f"{name}.c"]))


def stacks(path: Path, sizes: tuple[int, ...]) -> dict[int, list[str]]:
    """Return the functions of the stack of each block of such a size that is alive."""
    shown = run([*SOSCOPE, "mem", "report", "--json", str(path)])
    report: dict[str, Any] = json.loads(shown.stdout)
    return {
        row["bytes"]: [frame["symbol"] for frame in row["frames"]]
        for row in report["native"]
        if row["bytes"] in sizes
    }


@pytest.mark.covering(1)
@pytest.mark.parametrize("stack", ["thread", "coroutine", "signal"])
@pytest.mark.parametrize("way", WAYS)
def test_a_frame_pointer_to_a_buffer_above_the_stack(way: str, stack: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    words = [*SOSCOPE, *WAYS[way], "-o", str(file), "--", hostile("frame_pointer"), stack]
    done = run(words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
    if way == "trace":
        text = file.read_text()
        assert text.count("(allocate_with+") == 2
        assert "never_called" not in text or stack != "thread"
        return
    found = stacks(file, (1000, 1001))
    assert [names[0] for names in found.values()] == ["allocate_with"] * 2
    assert found[1001] == ["allocate_with"]  # the buffer has gone
    if stack == "thread":
        assert found[1000] == ["allocate_with"]


@pytest.mark.parametrize("way", ["exact", "sample"])
def test_a_frame_pointer_to_a_library_that_is_closed(way: str, tmp_path: Path) -> None:
    program, library = hostile("guessed_image"), hostile("lib_guessed_image", "-shared", "-fPIC")
    words = [*SOSCOPE, *WAYS[way], "-o", str(tmp_path / "out"), "--", program, library]
    done = run(words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_a_thread_with_a_part_of_the_stack_of_another_one(tmp_path: Path) -> None:
    source = build.TARGETS / "hostile"
    flags = ["gcc", "-O1", "-fPIC", "-shared"]
    library = build.compiled("libstack_again.so", flags, [source / "lib_stack_again.c"])
    flags = ["gcc", "-O1", "-pthread", "-Wl,-rpath,$ORIGIN"]
    program = build.compiled("stack_again", flags, [source / "stack_again.c"], [library])
    words = [*SOSCOPE, "mem", "run", "--blocks", "--mode", "sample=8000"]
    done = run([*words, "-o", str(tmp_path / "out"), "--", str(program)], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def execute_only(folder: Path, *, is_linked: bool) -> list[str]:
    """Return a command that calls a library whose code must not be read."""
    source = build.TARGETS / "hostile"
    library, program = folder / "libexecute_only.so", folder / "execute_only"
    flags = ["-O1", "-fPIC", "-shared", "-Wl,-z,separate-code,-z,lazy"]
    build.made_in(folder, "gcc", *flags, source / "lib_execute_only.c", "-o", library)
    linked: list[str | Path] = ["-Wl,--no-as-needed,-rpath,$ORIGIN", library] if is_linked else []
    build.made_in(folder, "gcc", "-O1", source / "execute_only.c", *linked, "-o", program)
    data = bytearray(library.read_bytes())
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(table, table + size * count, size):
        kind, flag = struct.unpack_from("<II", data, at)
        if kind == c.PT_LOAD and flag & c.PF_X:
            struct.pack_into("<I", data, at + 4, c.PF_X)
    library.write_bytes(data)
    return [str(program)] if is_linked else [str(program), str(library)]


@pytest.mark.parametrize("is_linked", [True, False], ids=["linked", "opened"])
def test_code_that_must_not_be_read(is_linked: bool, tmp_path: Path) -> None:
    command = execute_only(tmp_path, is_linked=is_linked)
    file = tmp_path / "out"
    for way in ("exact", "trace"):
        words = [*SOSCOPE, *WAYS[way], "-o", str(file), "--", *command]
        done = run(words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr
        if way == "exact":
            shown = run([*SOSCOPE, "mem", "report", "--json", str(file)])
            rows = [row for row in json.loads(shown.stdout)["native"] if row["bytes"] == 1000]
            assert [(row["count"], row["frames"][0]["symbol"]) for row in rows] == [
                (10, "allocate")
            ]
        else:
            assert file.read_text().count("libexecute_only.so->malloc(100)") == 10


@pytest.mark.parametrize("way", WAYS)
def test_threads_share_the_memory_for_stacks(way: str, tmp_path: Path) -> None:
    command = [hostile("places"), "200"]
    alone, left_alone = map(int, run(command).stdout.split())
    words = [*SOSCOPE, *WAYS[way], "-o", str(tmp_path / "out"), "--", *command]
    each, left = map(int, run(words, cwd=tmp_path).stdout.split())
    assert each - alone < 100  # KiB, beside what the thread has for its calls
    if way != "trace":  # the end of a thread is heard
        assert left - left_alone < 200 * (each - alone) / 2
