# SPDX-License-Identifier: Apache-2.0
"""What is to be seen while the target waits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.processes.launching import environment
from tests.support.processes.tracing import SOSCOPE
from tests.support.targets import build
from tests.support.time.patience import limit, until, with_note


@contextmanager
def tracing(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Trace a program whose input stays open."""
    process = subprocess.Popen(
        [*SOSCOPE, *map(str, words)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(seen: Callable[[], str], text: str) -> str:
    """Return what is seen as soon as it ends in `text`."""
    with with_note(seen):
        until(lambda: seen().endswith(text), f"it ends in {text!r}")
    return seen()


@pytest.mark.parametrize("where", ["file", "pipe"])
def test_a_call_that_waits_is_shown(where: str, tmp_path: Path) -> None:
    path = tmp_path / "calls"
    options: list[str | Path] = ["-o", path] if where == "file" else []
    with tracing(*options, "-e", "read@MAIN", "--", "cat") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        written = [""]
        os.set_blocking(process.stderr.fileno(), False)

        def seen() -> str:
            if where == "file":
                return path.read_text() if path.exists() else ""
            try:
                written[0] += os.read(process.stderr.fileno(), 4096).decode()  # type: ignore[union-attr]  # a pipe
            except BlockingIOError:
                pass  # nothing new
            return written[0]

        assert wait_for(seen, "read(0, ") == "cat->read(0, "
        process.stdin.write("hi\n")
        process.stdin.flush()
        first, _, rest = wait_for(seen, "\ncat->read(0, ").partition("\n")
        assert first.split(" =")[0].rstrip() == r'cat->read(0, "hi\n", 131072)'
        assert rest == "cat->read(0, "
        os.set_blocking(process.stderr.fileno(), True)
        said = process.communicate(timeout=limit())[1]
        text = path.read_text() if where == "file" else written[0] + said
    assert [line.split(" =")[0].rstrip() for line in text.splitlines()][:3] == [
        r'cat->read(0, "hi\n", 131072)',
        'cat->read(0, "", 131072)',
        "+++ exited (status 0) +++",
    ]


def test_a_process_that_waits_is_seen_beside_one_that_works(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    target = build.program("waiting_child")
    with tracing("-ff", "-o", path, "-e", "read,getppid@MAIN", "--", target) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        child = Path(f"{path}.{int(process.stdout.readline())}")
        assert wait_for(
            lambda: child.read_text() if child.exists() else "", "waiting_child->read(0, "
        )
        process.stdin.write("hi\n")
        process.stdin.flush()
        process.communicate(timeout=limit())
        assert process.returncode == 7
    assert 'waiting_child->read(0, "hi\\n", 16)' in child.read_text()


def test_an_exec_by_a_thread_that_is_not_traced_is_told(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    with tracing("-o", path, "--", build.program("thread_exec")) as process:
        wait_for(lambda: path.read_text() if path.exists() else "", "--- Called exec() ---\n")
        out, said = process.communicate("hi\n", timeout=limit())
    assert process.returncode == 0
    assert out.endswith("hi\n")
    assert "what a command starts is followed with -f" in said


def test_a_program_that_ends_at_once_is_told(tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.py"
    renamed.write_text(
        "import ctypes; ctypes.CDLL(None).prctl(15, b'my name', 0, 0, 0)  # PR_SET_NAME\n"
    )
    execute = "ctypes.CDLL(None).execv(b'/bin/true', (ctypes.c_char_p * 2)(b'true', None))"
    for command, names in (  # a pointer of dlsym is a way that soscope does not see
        ([sys.executable, "-c", f"import ctypes; {execute}"], ["true"]),
        (["/bin/sh", "-c", ":"], []),
        ([sys.executable, renamed], []),
    ):
        with tracing("-c", "-o", tmp_path / "calls", "--", *command) as process:
            _, said = process.communicate(timeout=limit())
        told = [line.split(" ran untraced")[0] for line in said.splitlines() if " ran unt" in line]
        assert [os.path.basename(path) for path in told] == names, said


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", [[], ["-c"], ["-q"]], ids=["text", "summary", "quiet"])
def test_a_filter_that_matches_nothing_is_told_at_once(mode: list[str], tmp_path: Path) -> None:
    options: list[str | Path] = [
        "-o",
        tmp_path / "calls",
        *mode,
        "-e",
        "getppit",
        "-e",
        "read@MAIN",
    ]
    target = build.program("waiting_child")
    with tracing(*options, "--", target) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()  # the program waits for its input from here on
        first = "" if "-q" in mode else process.stderr.readline()
        process.stdin.write("hi\n")
        said = process.communicate(timeout=limit())[1]
        assert process.returncode == 7
    if "-q" in mode:
        assert said == ""
        return
    assert first == (
        "soscope: -e getppit matches no symbol so far (what is loaded later may match); "
        "did you mean getppid?\n"
    )
    assert "so far" not in said
    assert "soscope: -e getppit matches no symbol; did you mean getppid?\n" in said
