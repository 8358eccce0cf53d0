# SPDX-License-Identifier: Apache-2.0
"""What tests build is made once, whole, and again when what it is made of changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.targets import build, kept
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import limit

HEAD = """
import os, sys, time
from pathlib import Path
from tests.support.targets.kept import kept
"""


def started(code: str, folder: Path) -> subprocess.Popen[str]:
    """Start a process that keeps what it makes in a folder `kept`."""
    more = {"SOSCOPE_TEST_BUILD": str(folder / "kept"), "PYTHONPATH": str(REPOSITORY)}
    words = [sys.executable, "-c", HEAD + code, str(folder)]
    return subprocess.Popen(words, env={**os.environ, **more}, stdout=subprocess.PIPE, text=True)


SLOWLY = """
def make(folder):
    print("made", flush=True)
    (folder / "file").write_text("half")
    while len(list(Path(sys.argv[1]).glob("begun*"))) < 4:
        time.sleep(0.01)
    (folder / "file").write_text("whole")
Path(sys.argv[1], f"begun{os.getpid()}").touch()
print((kept("thing", "part", make=make) / "file").read_text())
"""


def test_of_several_that_want_it_at_once_one_makes_it(tmp_path: Path) -> None:
    makers = [started(SLOWLY, tmp_path) for _ in range(4)]
    printed = sorted(maker.communicate(timeout=limit())[0] for maker in makers)
    assert printed == ["made\nwhole\n", "whole\n", "whole\n", "whole\n"]


def test_what_a_killed_one_left_is_not_taken(tmp_path: Path) -> None:
    code = """
def make(folder):
    (folder / "file").write_text("half")
    print("begun", flush=True)
    time.sleep(600)
kept("thing", make=make)
"""
    with started(code, tmp_path) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == "begun\n"
        maker.kill()
    (left,) = (tmp_path / "kept").glob("*/file")
    assert left.read_text() == "half"
    again = code.replace("half", "whole").replace("time.sleep(600)", "")
    with started(again, tmp_path) as maker:
        maker.communicate(timeout=limit())
    (file,) = {path.resolve() for path in (tmp_path / "kept").glob("*/file")}
    assert file.read_text() == "whole"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where this process keeps what it makes."""
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    return tmp_path / "kept"


def test_one_that_fails_leaves_nothing(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(AssertionError, match=r"gcc wrong\.c"):
            build.made({"wrong.c": "int main(void) { return }"}, "gcc wrong.c -o wrong")
    assert [path for path in folder.rglob("*") if path.suffix != ".lock"] == [folder / "made"]


def test_commands_run_again_when_what_they_read_has_changed(folder: Path, tmp_path: Path) -> None:
    source, header = tmp_path / "own.c", tmp_path / "own.h"
    source.write_text('#include "own.h"\n')
    ran = []
    for included, words, text in (
        ("int a;", "-u", ""),
        ("int a;", "-u", ""),
        ("int b;", "-u", ""),
        ("int b;", "-n", ""),
        ("int b;", "-n", "given"),
        ("int a;", "-u", ""),
    ):
        header.write_text(included)
        said = f"cat {words} own.c own.h - >said; touch {{here}}.count"
        made = build.made({"own.c": source, "own.h": header}, ["sh", "-c", said], text=text)
        assert included in (made / "said").read_text()
        ran.append(len(list(folder.glob("made/*.count"))))
    assert ran == [1, 1, 2, 3, 4, 4]


def test_a_folder_gets_what_is_made_of_its_files(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "six.c").write_text("int six(void) { return 6; }")
    build.made_in(tmp_path, "gcc", "-shared", "-fPIC", "-o", tmp_path / "lib/libsix.so", "six.c")
    text = "int six(void); int main(void) { return six(); }"
    words = ["-x", "c", "-", f"-L{tmp_path}/lib", "-lsix", "-Wl,-rpath,$ORIGIN/lib"]
    for _ in range(2):
        build.made_in(tmp_path, "gcc", *words, "-o", "program", text=text)
        assert run([tmp_path / "program"]).returncode == 6
        (tmp_path / "program").write_bytes(b"changed")  # the test's own copy
    assert len([path for path in folder.glob("made/*") if path.is_symlink()]) == 2
