# SPDX-License-Identifier: Apache-2.0
"""Display options of `trace` and `report`, against what programs say of themselves."""

from __future__ import annotations

import os
import pwd
import re
import sys
from pathlib import Path

import pytest

from tests.support.run import run
from tests.support.tools import need
from tests.support.tracing import SOSCOPE

REPORT = [sys.executable, "-m", "soscope", "report", "-q"]
SOURCE = """\
#include <stdio.h>
#include <unistd.h>

#define SAID(call) (printf("%s %d\\n", __func__, __LINE__), (call))

__attribute__((noinline)) static int inner(void)
{
\treturn SAID(getppid()) > 0;
}

int main(void)
{
\tint sum = inner();

\tsum += SAID(getppid()) > 0;
\tsum +=
\t\tSAID(getppid()) > 0;
\treturn sum != 3;
}
"""
PLACE = re.compile(r"^\[(\S+)\+0x([0-9a-f]+) (\w+)\+0x[0-9a-f]+ (\S+):(\d+)\] ")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a program that prints the lines of its calls."""
    folder = tmp_path_factory.mktemp("places")
    source, program = folder / "places.c", folder / "places"
    source.write_text(SOURCE)
    done = run([need("gcc"), "-g", "-O1", "-o", os.fspath(program), os.fspath(source)])
    assert done.returncode == 0, done.stderr
    return program


def test_places_are_those_of_the_calls(places: Path, tmp_path: Path) -> None:
    pytest.importorskip("elftools")
    file = tmp_path / "run.sosr"
    words = ["-q", "-i", "-e", "getppid", "--record", os.fspath(file), "-o", "-", "--"]
    done = run([*SOSCOPE, *words, os.fspath(places)])
    said = [line for line in done.stdout.splitlines() if re.fullmatch(r"\w+ \d+", line)]
    lines = [line for line in done.stdout.splitlines() if "getppid" in line]
    assert len(said) == len(lines) == 3, done.stdout
    for line, told in zip(lines, said, strict=True):
        matched = PLACE.match(line)
        assert matched is not None, line
        image, vaddr, function, source, number = matched.groups()
        assert (image, source) == ("places", "places.c")
        assert f"{function} {number}" == told
        # the call is in front of the address to which it returns
        before = hex(int(vaddr, 16) - 1)
        peer = run([need("addr2line"), "-f", "-e", os.fspath(places), before]).stdout.split()
        assert [peer[0], peer[1].rpartition("/")[2]] == [function, f"{source}:{number}"]
    shown = run([*REPORT, "-i", os.fspath(file)]).stdout.splitlines()
    assert [line for line in shown if "getppid" in line] == lines


def test_a_stripped_program_has_offsets_alone(places: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    run([need("strip"), "-s", "-o", os.fspath(stripped), os.fspath(places)])
    done = run([*SOSCOPE, "-q", "-i", "-e", "getppid", "--", os.fspath(stripped)])
    lines = [line for line in done.stderr.splitlines() if "getppid" in line]
    assert len(lines) == 3
    assert all(re.match(r"\[stripped\+0x[0-9a-f]+\] stripped->getppid\(\)", line) for line in lines)


def test_the_command_gets_another_environment() -> None:
    words = ["-q", "-E", "ADDED=a=b", "-E", "CHANGED=new", "-E", "GONE", "-E", "EMPTY=", "--"]
    env = {"CHANGED": "old", "GONE": "here", "KEPT": "kept"}
    done = run([*SOSCOPE, *words, need("env")], env=env)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert found["ADDED"] == "a=b"
    assert found["CHANGED"] == "new"
    assert found["EMPTY"] == ""
    assert found["KEPT"] == "kept"
    assert "GONE" not in found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")
def test_the_command_is_another_user() -> None:
    user = pwd.getpwnam("nobody")
    words = ["-q", "-u", "nobody", "-e", "getuid,geteuid", "--"]
    code = "import os; print(os.getresuid(), os.getresgid(), sorted(os.getgroups()))"
    done = run([*SOSCOPE, *words, "/usr/bin/python3", "-I", "-S", "-c", code])
    ids, groups = (user.pw_uid,) * 3, (user.pw_gid,) * 3
    assert done.stdout.startswith(f"{ids} {groups} "), done.stderr
    assert done.stdout.split(") ")[-1].strip() == str(
        sorted(os.getgrouplist("nobody", user.pw_gid))
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-u", "nosuchuser", "true"], "-u: there is no user 'nosuchuser'"),
        (["-u", "nobody", "-p", "1"], "-u is for a command"),
        (["-E", "A=1", "-p", "1"], "-E is for a command"),
        (["-E", "=x", "true"], "'=x' names no variable"),
        (["--color", "blue", "true"], "'blue' is not one of auto, always, never"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], said: str) -> None:
    done = run([*SOSCOPE, *words])
    assert said in done.stderr
    assert done.returncode in (2, 125)
