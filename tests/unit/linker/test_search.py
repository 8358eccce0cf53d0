# SPDX-License-Identifier: Apache-2.0
"""Libraries of a program: the files that its loader would map."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from soscope.linker.library import open_image
from soscope.linker.search import closure
from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.build import made, made_in

PROGRAMS = ["ls", "git", "perl", "ruby", "node", "sqlite3", "curl", "/usr/bin/python3", "gdb"]


def told(program: str, env: dict[str, str] | None = None) -> dict[str, str]:
    """Ask the program's own loader."""
    rows = re.findall(
        r"^\t(\S+) => (\S+)", run([need("ldd"), program], env=env).stdout, re.MULTILINE
    )
    return {name: os.path.realpath(path) if path != "not" else "" for name, path in rows}


def found(program: str, library_path: str = "") -> dict[str, str]:
    listed = closure(open_image(program), program, library_path)
    return {
        one.name: os.path.realpath(one.path) if one.image is not None else ""
        for one in listed[1:]
        if "ld-linux" not in one.name
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_libraries_are_those_that_the_loader_finds(name: str) -> None:
    program = need(name)
    assert found(program) == told(program)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A program that needs liba, which needs libb; both lie in folders of their own."""

    def compile_(source: str, *words: str) -> None:
        made_in(tmp_path, "gcc", "-x", "c", "-", "-fPIC", *words, text=source)

    compile_("int b(void) { return 2; }", "-shared", "-o", "b/libb.so", "-Wl,-soname,libb.so")
    source = "int b(void); int a(void) { return b(); }"
    compile_(source, "-shared", "-o", "a/liba.so", "-Wl,-soname,liba.so", "-Lb", "-lb")
    source = "int a(void); int main(void) { return a(); }"
    flags = ["-o", "program", "-La", "-la", "-Wl,-rpath-link,b"]
    compile_(source, *flags, "-Wl,-rpath,$ORIGIN/a:$ORIGIN/b", "-Wl,--enable-new-dtags")
    compile_(
        source,
        *flags[:1],
        "old",
        *flags[2:],
        "-Wl,-rpath,${ORIGIN}/a:$ORIGIN/b",
        "-Wl,--disable-new-dtags",
    )
    return tmp_path


def test_a_runpath_counts_for_its_own_image_alone(built: Path) -> None:
    program = str(built / "program")
    assert found(program) == told(program)
    assert found(program)["libb.so"] == ""


def test_an_rpath_counts_for_what_its_image_wanted(built: Path) -> None:
    program = str(built / "old")
    assert found(program) == told(program)
    assert found(program)["libb.so"].endswith("b/libb.so")


def test_library_path_comes_before_the_runpath(built: Path) -> None:
    program = str(built / "program")
    path = f"{built}/b"
    assert found(program, path) == told(program, {"LD_LIBRARY_PATH": path})
    assert found(program, path)["libb.so"].endswith("b/libb.so")


def test_a_library_for_another_machine_is_passed_over(built: Path) -> None:
    other = Path(need("/lib32/libm.so.6"))
    folder = built / "other"
    folder.mkdir()
    (folder / "libm.so.6").symlink_to(other)
    program = need("ruby")
    assert found(program, str(folder)) == told(program, {"LD_LIBRARY_PATH": str(folder)})


def test_the_loader_of_musl_is_its_library() -> None:
    folder = made({"ls.c": "int main(void) { return 0; }"}, "musl-gcc ls.c -o musl-ls")
    program = folder / "musl-ls"
    listed = closure(open_image(str(program)), str(program))
    assert [os.path.basename(one.path)[:7] for one in listed] == ["musl-ls", "ld-musl"]
    assert all(one.image is not None for one in listed)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    from soscope.errors import FormatError

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FormatError, match="not a regular file"):
        open_image(str(pipe))
