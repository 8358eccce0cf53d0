# SPDX-License-Identifier: Apache-2.0
"""What becomes of the libraries of patches when those are taken out of a running process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.targets import build
from tests.support.time.patience import limit

_LOOP = ("getenv", "strlen", "usleep")


def soscope(verb: str, pid: int, *words: str) -> dict[str, Any]:
    """Run a verb on a process; return its JSON document, with `status`."""
    done = subprocess.run(
        [sys.executable, "-m", "soscope", "--debug", verb, "-p", str(pid), "--json", *words],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit(),
        check=False,
    )
    assert done.stderr == ""
    return {**json.loads(done.stdout), "status": done.returncode}


def put_in(pid: int, program: Path, *symbols: str) -> str:
    """Replace functions by those of the library beside a program; return the library's path."""
    library = str(program.with_name("libinside.so"))
    words = [f"--replace={symbol}={library}:inside_{symbol}" for symbol in symbols]
    said = soscope("patch", pid, *words)
    assert said["status"] == 0
    assert is_mapped(pid)
    return library


def is_mapped(pid: int) -> bool:
    return "libinside.so" in Path(f"/proc/{pid}/maps").read_text()


def tell(process: subprocess.Popen[str], line: str) -> str:
    """Tell a program something; return its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline()


def threads(pid: int) -> set[str]:
    return set(os.listdir(f"/proc/{pid}/task"))


@pytest.mark.every(3)
@pytest.mark.parametrize(("loops", "turns"), [(0, 8), (4, 4), (20, 4)])
def test_the_library_is_gone_every_time(loops: int, turns: int) -> None:
    program = build.program("looping")
    with attached.running([program, str(loops)]) as process:
        before = attached.snapshot(process.pid)
        for turn in range(turns):
            library = put_in(process.pid, program, *_LOOP)
            said = soscope("patch" if turn % 4 else "detach", process.pid, *["--undo"][: turn % 4])
            assert said["status"] == 0
            assert (said["closed"], said["left_loaded"]) == ([library], [])
            assert not is_mapped(process.pid)
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


@pytest.mark.covering(1)
@pytest.mark.parametrize("first", [("patch", "--undo"), ("detach",)])
@pytest.mark.parametrize("second", [("patch", "--undo"), ("detach",)])
def test_a_thread_inside_keeps_it_until_it_has_left(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    program = build.program("looping")
    with attached.running([program]) as process:
        library = put_in(process.pid, program, "poll", *_LOOP)
        assert tell(process, "park") == "parks\n"
        for verb, *words in (first, second):
            said = soscope(verb, process.pid, *words)
            assert said["status"] == 0
            assert (said["closed"], said["left_loaded"]) == ([], [library])
            assert is_mapped(process.pid)
        assert tell(process, "leave") == "left\n"
        verb, *words = second
        said = soscope(verb, process.pid, *words)
        assert said["status"] == 0
        assert (said["closed"], said["left_loaded"]) == ([library], [])
        assert not is_mapped(process.pid)
        assert attached.finish(process) == (7, "wrong 0\n", "")


@pytest.mark.parametrize("options", [(), ("-c",)])
def test_a_killed_trace_stands_on_top(options: tuple[str, ...]) -> None:
    """A call that is under way goes through the trace's trampoline to what stands there."""
    program = build.program("looping")
    with attached.running([program]) as process:
        before = attached.snapshot(process.pid)
        library = put_in(process.pid, program, "poll", *_LOOP)
        tracer = attached.begin(process.pid, "-o", os.devnull, *options)
        assert tell(process, "park") == "parks\n"
        tracer.kill()
        tracer.communicate(timeout=limit())
        said = soscope("detach", process.pid)
        assert (said["closed"], said["left_loaded"]) == ([], [library])
        assert tell(process, "leave") == "left\n"
        said = soscope("detach", process.pid)
        assert (said["closed"], said["left_loaded"]) == ([library], [])
        assert attached.differences(before, process.pid) == []
        assert attached.finish(process) == (7, "wrong 0\n", "")


def test_whoever_has_it_open_does_not_lose_it() -> None:
    program = build.program("looping")
    with attached.running([program]) as process:
        assert tell(process, "open") == "opened\n"
        library = put_in(process.pid, program, *_LOOP)
        said = soscope("patch", process.pid, "--undo")
        assert (said["closed"], said["left_loaded"]) == ([], [library])
        for verb, *words in (("patch", "--undo"), ("detach",)):
            said = soscope(verb, process.pid, *words)
            assert (said["closed"], said["left_loaded"]) == ([], [])
            assert is_mapped(process.pid)
        assert attached.finish(process) == (7, "wrong 0\n", "")


@pytest.mark.parametrize("verb", ["patch", "detach"])
def test_people_hear_who_is_inside(verb: str) -> None:
    program = build.program("looping")
    with attached.running([program]) as process:
        library = put_in(process.pid, program, "poll")
        before = threads(process.pid)
        assert tell(process, "park") == "parks\n"
        words = [sys.executable, "-m", "soscope", verb, "-p", str(process.pid)]
        words += ["--undo"] if verb == "patch" else []
        done = subprocess.run(
            words, env=environment(), capture_output=True, text=True, timeout=limit(), check=True
        )
        (inside,) = threads(process.pid) - before
        said = f"process {process.pid}: {library} stays loaded: thread {inside} is inside it\n"
        assert done.stdout.endswith(said)
