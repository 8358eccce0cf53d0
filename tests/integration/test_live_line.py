# SPDX-License-Identifier: Apache-2.0
"""The line on a terminal that says how far a trace has come."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build


def on_a_terminal(words: list[str]) -> str:
    """Return what a command writes to standard error, a terminal."""
    ours, theirs = pty.openpty()
    pieces: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 4096):
                pieces.append(piece)
        except OSError:
            pass  # nobody has the other end any more

    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stderr=theirs,
        env=environment(),
        timeout=60,
        check=False,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    assert done.returncode == 0
    return b"".join(pieces).decode()


LINES = {
    "-c": r"\d+\.\d s  [\d,]+ calls  [\d,]+/s  \w+ \d+%  dropped 0",
    "--record": r"\d+\.\d s  [\d.,]+ MB  [\d.,]+ MB/s  dropped [\d,]+",
    "-o": r"\d+\.\d s  [\d,]+ calls  [\d,]+/s  dropped [\d,]+",
}


@pytest.mark.parametrize("option", LINES)
def test_it_is_refreshed_in_place_and_gone_at_the_end(option: str, tmp_path: Path) -> None:
    words = [*SOSCOPE, "-e", "malloc@MAIN,free@MAIN", "--duration", "2500ms"]
    words += (
        ["-c", "-o", str(tmp_path / "out")] if option == "-c" else [option, str(tmp_path / "out")]
    )
    with attached.running([build.program("attached"), "1"]) as process:
        text = on_a_terminal([*words, "-p", str(process.pid)])
        assert attached.finish(process)[0] == 7
    shown = re.findall(r"\r\x1b\[K([^\r\n]*)", text)
    assert len(shown) >= 2
    assert re.fullmatch(LINES[option], shown[0]), shown
    assert shown[-1].startswith("soscope: ")  # what follows begins where the line was


def test_it_is_not_there_where_somebody_else_writes(tmp_path: Path) -> None:
    words = [*SOSCOPE, "-o", str(tmp_path / "out")]
    assert "\r\x1b[K" not in on_a_terminal([*words, "--", "sleep", "1.5"])
    assert "\r\x1b[K" not in on_a_terminal([*words, "-q", "--live", "always", "--", "sleep", "1.5"])
    assert "\r\x1b[K" in on_a_terminal([*words, "--live", "always", "--", "sleep", "1.5"])
