# SPDX-License-Identifier: Apache-2.0
"""Calls of a C++ library without debug information are shown by the mangled names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.build import TARGETS, made_in

CXX = TARGETS / "cxx"  # the program says of each call what it passed
HIDDEN = (
    "joined",
    "text_of",
    "label",
    "titled",
)  # a pointer to the result stands before what was passed


@pytest.fixture(scope="module", params=["g++", "clang++"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library and the program with a compiler."""
    path = tmp_path_factory.mktemp("cxx")
    for command in (
        f"{request.param} -O1 -g0 -shared -fPIC {CXX / 'lib_cxx_names.cc'} -o libcxx_names.so",
        f"{request.param} -O1 -g0 {CXX / 'cxx_names.cc'} -o cxx_names -L. -lcxx_names",
    ):
        made_in(path, *command.split(), "-Wl,-rpath,$ORIGIN")
    return path


def calls(text: str) -> list[str]:
    """Return the lines of calls of the program, without results and arguments of templates."""
    lines = [
        line.partition("->")[2] for line in text.splitlines() if line.startswith("cxx_names->")
    ]
    return [re.sub(r"^(\w+)<\w+>", r"\1", line.rpartition(") ")[0] + ")") for line in lines]


@pytest.mark.every(2)
def test_what_names_tell_is_what_was_passed(folder: Path) -> None:
    recording, choice = folder / "cxx.sosr", ("-l", "libcxx_names*", "--from", "MAIN")
    done = run([*SOSCOPE, "trace", *choice, "--record", recording, folder / "cxx_names"])
    assert done.returncode == 0, done.stderr
    report = run([*SOSCOPE, "report", recording]).stdout
    shown = [line for line in calls(report) if not line.startswith((*HIDDEN, "shop::basket::~"))]
    assert [
        line for line in shown if "label" not in line and "titled" not in line
    ] == done.stdout.splitlines()
    # what nobody can tell is not shown as if somebody could
    events = [
        json.loads(line)
        for line in run([*SOSCOPE, "report", "--json", recording]).stdout.splitlines()
    ]
    hidden = [one for one in events if any(name in one.get("symbol", "") for name in HIDDEN)]
    assert len(hidden) == 4
    for call in hidden:
        assert {argument["type"] for argument in call["args"]} == {"?"}
        assert all(argument["guess"] for argument in call["args"])
