# SPDX-License-Identifier: Apache-2.0
"""`soscope map` of many files shows on a terminal how far it is, and leaves nothing there."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.machines.tools import need
from tests.support.processes.launching import python_path

MAP = [sys.executable, "-m", "soscope", "map", "-e", "nothing"]


def on_a_terminal(folder: Path, *, stdout_too: bool = False) -> str:
    """Return what a terminal gets."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*MAP, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path()},
        stdin=subprocess.DEVNULL,
        stdout=theirs if stdout_too else subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 4096):
            text += piece
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(ours)
        assert process.wait(60) in (0, 1)
    return text.decode()


def test_a_line_that_goes_away(tmp_path: Path) -> None:
    for number in range(30):
        shutil.copy(need("true"), tmp_path / f"file{number:02}")
    shown = on_a_terminal(tmp_path)
    assert re.match(r"\r1 of 30  \./file\d\d\x1b\[K", shown)
    before, _, after = shown.rpartition("\r\x1b[K")
    assert before
    assert "file" not in after
    assert "\x1b[K" not in on_a_terminal(tmp_path, stdout_too=True)


def test_few_files_show_none(tmp_path: Path) -> None:
    shutil.copy(need("true"), tmp_path / "file")
    assert "\x1b[K" not in on_a_terminal(tmp_path)
