# SPDX-License-Identifier: Apache-2.0
"""Whether a command makes objects that can be counted: whoever it executes in its own place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from soscope.instruments.mem.run import is_interpreter
from tests.support.machines.tools import need
from tests.support.time.patience import limit

_PROCESSOR = min(os.sched_getaffinity(0))
_ITSELF = "import os, sys; print(os.getpid(), sys.argv[1])"


@pytest.mark.parametrize(
    "words",
    [
        "env",
        "env -u HOME A=1 B=python3",
        "env -u test",  # test is a program, too
        "env -iu test --chdir / -C/ --unset=ls --unse ls -- A=1",
        "nice -n 1",
        "nice --adjustment 1",
        "nohup",
        "env nice",
        "stdbuf -oL",
        "stdbuf -o L --err 0",
        "setsid",
        "setarch -R",
        f"setarch {os.uname().machine}",
        f"taskset -c {_PROCESSOR}",
        f"taskset {1 << _PROCESSOR:x}",
        "chrt --other 0",
        "ionice -c 3",
        "ionice -c2 -n 7",
    ],
)
def test_what_executes_an_interpreter_in_its_own_place_is_none_itself(words: str) -> None:
    before = words.split()
    need(before[0])
    command = [*before, sys.executable, "-c", _ITSELF, "word"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate(timeout=limit())
    assert said.split() == [str(process.pid), "word"]
    assert is_interpreter(command)
    assert not is_interpreter([*before, need("ls"), sys.executable])
    assert not is_interpreter(before)


def test_scripts_are_what_their_first_line_says(tmp_path: Path) -> None:
    for line, is_one in (("#!/usr/bin/env python3", True), ("#!/bin/sh", False)):
        script = tmp_path / "script"
        script.write_text(f"{line}\n")
        script.chmod(0o700)
        assert is_interpreter([str(script)]) == is_one
        assert is_interpreter(["env", str(script)]) == is_one


def test_words_that_env_takes_apart() -> None:
    """They may be a script's first line, of which there is only one argument."""
    for text, is_one in ((f"-u test A=1 {sys.executable} -c", True), ("ls -l", False)):
        for option in (["-S", text], [f"-S{text}"], [f"--split-string={text}"]):
            assert is_interpreter(["env", *option, _ITSELF]) == is_one
    said = subprocess.run(
        ["env", "-S", f"-u test A=1 {sys.executable} -c", _ITSELF, "word"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=limit(),
        check=True,
    ).stdout
    assert said.split()[1:] == ["word"]
    assert not is_interpreter(["env", "-S", "'"])
