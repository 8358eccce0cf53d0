# SPDX-License-Identifier: Apache-2.0
"""Programs that say themselves how much memory they have, and what soscope says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.machines.tools import need
from tests.support.processes.launching import environment
from tests.support.processes.resolving import made
from tests.support.time.patience import limit

SOURCE = Path(__file__).parents[2] / "targets" / "mem" / "where.c"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
LEAKING_PYTHON = """
import time
kept = []
print("ready", flush=True)
while True:
    kept.append([object() for _ in range(500)])
    time.sleep(0.002)
"""
EMPTIED_PYTHON = """
import sys
kept = [[number] for number in range(300000)][::40]
print("ready", flush=True)
sys._debugmallocstats()
sys.stdin.readline()
"""


def target(compiler: str = "gcc", *flags: str) -> Path:
    """Return the program of tests/targets/mem/where.c, built."""
    return made("where", SOURCE.read_text(), "-pthread", *flags, compiler=compiler)


class Told:
    """A program that waits, and what it has said.

    `mallinfo` is arena, uordblks, fordblks, hblks and hblkhd; `pin` the address and usable bytes of
    the block that keeps the top in use.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self.mallinfo: list[int] = []
        self.pin: tuple[int, int] | None = None
        self.mapped = 0
        assert process.stdout is not None
        for line in process.stdout:
            match line.split():
                case ["mallinfo", *numbers]:
                    self.mallinfo = [int(number) for number in numbers]
                case ["pin", addr, size]:
                    self.pin = int(addr, 16), int(size)
                case ["mapped", size]:
                    self.mapped = int(size)
                case ["ready"]:
                    return
        raise AssertionError("it has ended")

    @property
    def rss(self) -> int:
        """Its resident bytes, as the kernel counts them."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return int(text.split("Rss:")[1].split()[0]) * 1024


@contextmanager
def running(
    *command: str | os.PathLike[str], env: Mapping[str, str] | None = None
) -> Iterator[Told]:
    """Run a program until the end of the block; it has said what it has when that begins."""
    process = subprocess.Popen(
        [os.fspath(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        yield Told(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what was never read
                pipe.close()


def soscope(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `soscope mem`."""
    return subprocess.run(
        [sys.executable, "-m", "soscope", "mem", *words],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=limit(120),
        check=False,
    )


def asked(verb: str, pid: int, *words: str) -> dict[str, Any]:
    """Return the document that `soscope mem VERB -p PID --json` prints."""
    done = soscope(verb, "-p", str(pid), "--json", *words)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def resident(document: dict[str, Any], what: str, name: str = "") -> int:
    """Return the bytes of all parts of a kind, of those alone with `name` in theirs."""
    return sum(
        part["bytes"]
        for part in document["parts"]
        if part["what"] == what and name in (part["name"] or "")
    )


def jemalloc() -> dict[str, str]:
    """Return the environment that gives a program jemalloc."""
    return {"LD_PRELOAD": need(JEMALLOC)}
