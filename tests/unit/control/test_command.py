# SPDX-License-Identifier: Apache-2.0
"""From the words of a command to a program: the search, and what is known before exec."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from soscope.control.command import Command, ExitStatus, launch_error
from soscope.errors import LaunchError
from soscope.proc import status
from tests.support.files.elfwriter import Writer, sample


def executable(path: Path, data: bytes) -> Path:
    """Write a file that can be executed."""
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def test_path_is_searched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "prog").write_text("")
    executable(tmp_path / "b" / "prog", b"#!/bin/sh\n")
    executable(tmp_path / "c" / "prog", b"#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/none:{tmp_path}/a:{tmp_path}/b:{tmp_path}/c")
    found = Command(["prog", "x"])
    assert found.arguments == [b"prog", b"x"]
    assert found.files == [os.fsencode(tmp_path / "b/prog"), os.fsencode(tmp_path / "c/prog")]
    monkeypatch.setenv("PATH", f"{tmp_path}/none:{tmp_path}/a")
    with pytest.raises(LaunchError) as caught:
        Command(["prog"])
    assert caught.value.exit_status == 126
    with pytest.raises(LaunchError) as caught:
        Command(["no-such"])
    assert caught.value.exit_status == 127


def test_an_empty_part_of_path_is_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "prog", b"#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/none:")
    assert Command(["prog"]).files == [b"./prog"]


@pytest.mark.parametrize(
    ("writer", "interpreter", "reason"),
    [
        (sample(), "/lib64/ld.so", None),
        (sample(), "", status.STATIC),
        (sample(32), "/lib/ld.so", status.FOREIGN),
        (sample(64, ">"), "/lib/ld.so", None),
    ],
)
def test_what_takes_no_agent_is_known_before(
    tmp_path: Path, writer: Writer, interpreter: str, reason: str | None
) -> None:
    path = executable(tmp_path / "prog", writer.build(interpreter=interpreter))
    found = Command([str(path)])
    assert found.reason == reason
    assert found.program == str(path.resolve())


def test_another_machine_is_foreign(tmp_path: Path) -> None:
    writer = sample()
    writer.machine = 183
    path = executable(tmp_path / "prog", writer.build(interpreter="/lib/ld.so"))
    assert Command([str(path)]).reason == status.FOREIGN


@pytest.mark.parametrize("line", [b"#!%s", b"#! \t%s", b"#!%s -x\t-y", b"#!%s \t"])
def test_the_interpreter_of_a_script_is_the_program(tmp_path: Path, line: bytes) -> None:
    target = executable(tmp_path / "target", sample().build(interpreter="/lib64/ld.so"))
    link = tmp_path / "link"
    link.symlink_to(target)
    inner = executable(tmp_path / "inner", line % os.fsencode(link) + b"\nrest\n")
    outer = executable(tmp_path / "outer", b"#!" + os.fsencode(inner))
    found = Command([str(outer)])
    assert found.program == str(target.resolve())
    assert found.reason is None


def test_text_is_for_the_shell(tmp_path: Path) -> None:
    found = Command([str(executable(tmp_path / "text", b"echo hello\n"))])
    assert found.is_text
    assert found.program == os.path.realpath("/bin/sh")
    assert not Command([str(executable(tmp_path / "data", b"MZ\0\1\n"))]).is_text


def test_a_script_that_interprets_itself_ends(tmp_path: Path) -> None:
    path = tmp_path / "loop"
    executable(path, b"#!" + os.fsencode(path) + b"\n")
    assert Command([str(path)]).files == [os.fsencode(path)]


def test_the_errors_of_exec_have_the_shells_status(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("")
    assert launch_error(str(there), errno.ENOENT).exit_status == 126
    assert "interpreter" in launch_error(str(there), errno.ENOENT).message
    assert launch_error(str(tmp_path / "gone"), errno.ENOENT).exit_status == 127
    for number in (errno.EACCES, errno.ENOEXEC, errno.E2BIG, errno.ETXTBSY):
        error = launch_error(str(there), number)
        assert (error.exit_status, error.errno) == (126, number)


def test_a_wait_status_is_an_exit_status_or_a_signal() -> None:
    status = ExitStatus.of_wait(7 << 8)
    assert (status.status, status.signal) == (7, None)
    status = ExitStatus.of_wait(11 | 0x80)
    assert (status.status, status.signal) == (None, 11)
    assert repr(status) == "ExitStatus(status=None, signal=11)"


@pytest.mark.parametrize(
    ("content", "is_script"),
    [
        (b"", True),
        (b"\n", True),
        (b"#!\necho\n", True),
        (b"#!" + b"/" * 300 + b"bin/true\n", True),
        (b"#! \t/bin/true -x\n", False),
        (b"#!/bin/true", False),
        (b"#!/bin/true\t" + b"x" * 300 + b"\n", False),
    ],
)
def test_what_the_kernel_does_not_run_the_shell_does(
    tmp_path: Path, content: bytes, is_script: bool
) -> None:
    command = Command([str(executable(tmp_path / "file", content))])
    assert command.is_text == is_script
    assert command.program == os.path.realpath("/bin/sh" if is_script else "/bin/true")
