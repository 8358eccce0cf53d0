# SPDX-License-Identifier: Apache-2.0
"""Stubs of the GDB remote protocol that wait for soscope: gdbserver's, and those of emulators."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tests.support.machines.crossed import sysroot
from tests.support.machines.tools import need
from tests.support.processes.run import kill
from tests.support.time.patience import until

_ACCEPTING = "00010000"  # the flags of a socket that listens, in /proc/net/unix

_NUMBERS = itertools.count()  # of the sockets


class Waiting:
    """A stub that waits at `address`; `process` is gdbserver, or the emulator.

    `pid` is the process that gdbserver holds.
    """

    def __init__(self, address: str, process: subprocess.Popen[str]) -> None:
        self.address = address
        self.pid = 0
        self.file: IO[str] | None = None
        self.process = process

    def said(self) -> str:
        """Return what gdbserver and its program have written on standard error."""
        assert self.file is not None
        # at a place of its own: the writers share that of the file
        return os.pread(self.file.fileno(), 1 << 20, 0).decode()

    def found(self, pattern: str) -> re.Match[str] | None:
        """Return where a pattern is in that, None where it is not."""
        return re.search(pattern, self.said())


@contextlib.contextmanager
def gdbserver(*words: str | Path, stdout: int = subprocess.DEVNULL) -> Iterator[Waiting]:
    """Have a gdbserver wait: for a program that it starts, or with --attach and a number."""
    attach = ["--attach"] if words[0] == "--attach" else []
    rest = words[1:] if attach else words
    with tempfile.TemporaryFile("w+") as said:  # a pipe that nobody reads would hold it up
        process = subprocess.Popen(
            [need("gdbserver"), "--once", *attach, "localhost:0", *rest],
            stdout=stdout,
            stderr=said,
            text=True,
            start_new_session=True,
        )
        waiting = Waiting("", process)
        waiting.file = said
        try:
            port = r"Listening on port (\d+)"
            told = until(lambda: waiting.found(port), "gdbserver listens", running=process)
            named = waiting.found(r"pid = (\d+)")
            waiting.address = f"localhost:{told[1]}"
            waiting.pid = int(named[1]) if named else 0
            yield waiting
        finally:
            kill(process)


def _listens(place: Path) -> bool:
    """Return whether somebody listens at a socket, without connecting: a stub takes one client."""
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return any(row[3] == _ACCEPTING and row[-1] == str(place) for row in rows)


@contextlib.contextmanager
def emulator(arch: str, program: Path, *words: str) -> Iterator[Waiting]:
    """Have qemu wait with a program at its loader's first instruction."""
    place = program.parent / f"stub-{os.getpid()}-{next(_NUMBERS)}"
    process = subprocess.Popen(
        [need(f"qemu-{arch}"), "-g", place, "-L", sysroot(arch), program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: _listens(place), "the emulator listens", running=process)
        yield Waiting(f"unix:{place}", process)
    finally:
        kill(process)
