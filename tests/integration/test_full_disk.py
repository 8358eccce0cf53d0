# SPDX-License-Identifier: Apache-2.0
"""What cannot be printed is said on standard error, by every verb in the same words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from soscope.verbs.main import VERBS
from tests.support.processes.launching import environment
from tests.support.processes.run import soscope
from tests.support.time.patience import limit

COMMANDS = [
    "--version",
    "--help",
    "help trace",
    "mem --help",
    "trace -h",
    "trace --explain malloc",
    "trace --explain malloc --json",
    "report calls.sosr",
    "report -c --json calls.sosr",
    "export --format csv -o - calls.sosr",
    "mem report blocks.sosr",
    "mem report --json blocks.sosr",
    "mem leaks blocks.sosr",
    "mem report --peak blocks.sosr",
    "mem report --temporary blocks.sosr",
    "mem diff blocks.sosr blocks.sosr",
    "prof report prof.sosr",
    "prof diff prof.sosr prof.sosr",
    "prof check /bin/true",
    "map /bin/true",
    "check /bin/true",
    "called -- true",
    "doctor",
    "explain /bin/true abort",
    "audit-resolver /lib64/ld-linux-x86-64.so.2",
    "resolve -p {pid} malloc",
    "map -p {pid}",
    "mem where -p {pid}",
    "mem snapshot -p {pid}",
    "mem live --duration 0.2s -p {pid}",
    "mem trim -p {pid}",
    "mem attach --json -p {pid}",
    "detach -p {pid}",
    "patch -p {pid} --undo",
    "prof attach --boundary count --duration 0.2s -p {pid}",
    "inject --sweep malloc -- true",
]

# What these say is on standard error, in a file that the user names, or of objects that another
# verb has to see being made: of these, the help is printed.
QUIET = {"mem refs", "mem run", "mem flame", "prof flame", "prof run"}
HELP = [f"{verb} --help" for verb in VERBS]

WORKS = "import time\nwhile True:\n    kept = [1] * 1000\n    time.sleep(0.01)\n"


@pytest.fixture(scope="module")
def pid() -> Iterator[int]:
    """A process to look at."""
    with subprocess.Popen([sys.executable, "-c", WORKS]) as process:
        yield process.pid
        process.kill()


def test_every_verb_is_in_the_table() -> None:
    named = {verb for verb in VERBS for command in COMMANDS if f"{command} ".startswith(f"{verb} ")}
    assert named | QUIET == set(VERBS)
    assert not named & QUIET


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for words in (
        ["trace", "--record", "calls.sosr", "--", "ls", "/"],
        ["mem", "run", "--blocks", "-o", "blocks.sosr", "--", "ls", "/"],
        ["prof", "run", "-o", "prof.sosr", "--", "ls", "/"],
    ):
        assert (folder / words[-4]).exists() or soscope(*words, cwd=folder).returncode == 0
    return folder


def printing(command: str, stdout: str, folder: Path, pid: int) -> subprocess.CompletedProcess[str]:
    """Run soscope by a shell that opens standard output in some way."""
    script = f'exec "$@" {stdout}'
    words = [
        "sh",
        "-c",
        script,
        "-",
        sys.executable,
        "-m",
        "soscope",
        *command.format(pid=pid).split(),
    ]
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=limit(),
        env=environment(),
        cwd=folder,
    )


@pytest.mark.parametrize("command", [*COMMANDS, *HELP])
def test_a_full_disk_is_said(command: str, recordings: Path, pid: int) -> None:
    done = printing(command, ">/dev/full", recordings, pid)
    assert "cannot write standard output: no space left on device" in done.stderr
    assert not {"Traceback", "bug"} & set(done.stderr.replace(",", " ").split())
    assert done.returncode in (1, 125)


@pytest.mark.every(4)
@pytest.mark.parametrize("command", [*COMMANDS, *HELP])
def test_a_closed_output_is_said(command: str, recordings: Path, pid: int) -> None:
    done = printing(command, ">&-", recordings, pid)
    assert "cannot write standard output: bad file descriptor" in done.stderr
    assert not {"Traceback", "bug"} & set(done.stderr.replace(",", " ").split())
    assert done.returncode in (1, 125)


@pytest.mark.every(4)
@pytest.mark.parametrize("command", [*COMMANDS, *HELP])
def test_nobody_reads(command: str, recordings: Path, pid: int) -> None:
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "soscope", *command.format(pid=pid).split()]
    try:
        done = subprocess.run(
            words,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=limit(),
            env=environment(),
            cwd=recordings,
        )
    finally:
        os.close(write)
    assert done.returncode == -signal.SIGPIPE, done.stderr
    assert done.stderr == "" or "bug" not in done.stderr
