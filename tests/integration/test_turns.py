# SPDX-License-Identifier: Apache-2.0
"""A process is hooked, and made what it was, in many short stops: it goes on rightly in between.

The shortest turns that there can be make every place in the work one where the process goes on.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import attached, build
from tests.support.launching import environment
from tests.support.tools import need

SHORT = """\
import os, sys
from soscope.control import takeout, turns

def counted(work, path):
    def count(*arguments):
        with open(path, "ab", 0) as file:
            file.write(b".")
        return work(*arguments)
    return count

turns._TURN = 1
takeout._TURN = 0.0
turns._turn = counted(turns._turn, sys.argv[1] + "/in")
takeout._stop_prepared = counted(takeout._stop_prepared, sys.argv[1] + "/out")
sys.argv[:2] = ["soscope"]
from soscope.cli.main import start
start()
"""
MODES = {
    "count": ["--count-only"],
    "times": ["-c"],
    "calls": ["--record", "{}/run.sosr", "--buffer", "1M"],
}


def trace(pid: int, folder: Path, *options: str) -> tuple[int, int]:
    """Trace a process for a moment; return the stops it took to hook and to put back."""
    words = ["--debug", "trace", "-p", str(pid), "--from", "all", "--duration", "50ms"]
    words += [word.format(folder) for word in options]
    done = subprocess.run(
        [sys.executable, "-c", SHORT, str(folder), *words],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=attached.LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "not hooked: its loader was busy" not in done.stderr
    return tuple(len((folder / way).read_bytes()) for way in ("in", "out"))  # type: ignore[return-value]


@pytest.mark.parametrize("mode", MODES)
def test_threads_that_throw_load_and_fork_go_on(mode: str, tmp_path: Path) -> None:
    with attached.running([build.program("attached_mixed")]) as process:
        before = attached.snapshot(process.pid, without="libanl")
        hooking, putting_back = trace(process.pid, tmp_path, *MODES[mode])
        assert min(hooking, putting_back) >= 10
        assert attached.differences(before, process.pid, without="libanl") == []
        assert attached.finish(process) == (7, "wrong 0, some 1\n", "")


def test_an_interpreter_goes_on_and_what_it_loads_meanwhile_is_hooked(tmp_path: Path) -> None:
    text = (
        "import sys, threading\nprint('ready', flush=True)\n"
        "names = 'json _ssl sqlite3 ctypes bz2 lzma decimal unicodedata zoneinfo'.split()\n"
        "over = []\n"
        "def load():\n"
        "    for name in names: __import__(name)\n"
        "def count():\n"
        "    while not over: str(1) + repr([2.5])\n"
        "other = threading.Thread(target=count); other.start()\n"
        "load(); sys.stdin.readline(); over.append(1); other.join(); print('end')"
    )
    with attached.running([need("python3"), "-c", text]) as process:
        before = attached.snapshot(process.pid)
        hooking, _ = trace(process.pid, tmp_path, "-c")
        assert hooking >= 10
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (0, "end\n", "")


def test_a_second_session_is_as_the_first(tmp_path: Path) -> None:
    with attached.running([build.program("attached"), "2"]) as process:
        before = attached.snapshot(process.pid)
        for mode in ("times", "calls"):
            trace(process.pid, tmp_path, *MODES[mode])
            assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")
