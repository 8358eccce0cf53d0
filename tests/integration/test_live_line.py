# SPDX-License-Identifier: Apache-2.0
"""The line on a terminal that says how far a trace has come."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.time.patience import limit, until

REFRESHED = "\r\x1b[K"


def on_a_terminal(words: list[str], *, refreshes: int = 0) -> str:
    """Return what a command writes to standard error, a terminal.

    After so many refreshes of its line it is told to end, with 0 it ends by itself.
    """
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
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=theirs, env=environment())
    os.close(theirs)
    try:
        if refreshes:
            shown = REFRESHED.encode()
            are_seen = lambda: b"".join(pieces).count(shown) >= refreshes  # noqa: E731
            until(are_seen, f"{refreshes} refreshes", running=process)
            process.send_signal(signal.SIGINT)
        assert process.wait(limit()) == 0
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(ours)
    return b"".join(pieces).decode()


LINES = {
    "-c": r"\d+\.\d s  [\d,]+ calls  [\d,]+/s  \w+ \d+%  dropped 0",
    "--record": r"\d+\.\d s  [\d.,]+ MB  [\d.,]+ MB/s  dropped [\d,]+",
    "-o": r"\d+\.\d s  [\d,]+ calls  [\d,]+/s  dropped [\d,]+",
}


@pytest.mark.every(2)
@pytest.mark.parametrize("option", LINES)
def test_it_is_refreshed_in_place_and_gone_at_the_end(option: str, tmp_path: Path) -> None:
    words = [*SOSCOPE, "-e", "malloc@MAIN,free@MAIN"]
    words += (
        ["-c", "-o", str(tmp_path / "out")] if option == "-c" else [option, str(tmp_path / "out")]
    )
    with attached.running([build.program("attached"), "1"]) as process:
        text = on_a_terminal([*words, "-p", str(process.pid)], refreshes=2)
        assert attached.finish(process)[0] == 7
    shown = re.findall(r"\r\x1b\[K([^\r\n]*)", text)
    # the first may be due before a call was made
    assert any(re.fullmatch(LINES[option], line) for line in shown), shown
    assert shown[-1].startswith("soscope: ")  # what follows begins where the line was


def test_it_is_not_there_where_somebody_else_writes(tmp_path: Path) -> None:
    """It is due after a second, and soscope looks a last time when a command has ended."""
    words = [*SOSCOPE, "-o", str(tmp_path / "out")]
    assert REFRESHED not in on_a_terminal([*words, "--", "sleep", "1.5"])
    assert REFRESHED not in on_a_terminal([*words, "-q", "--live", "always", "--", "sleep", "1.5"])
    assert REFRESHED in on_a_terminal([*words, "--live", "always", "--", "sleep", "1.5"])
