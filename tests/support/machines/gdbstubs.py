# SPDX-License-Identifier: Apache-2.0
"""Stubs of the GDB remote protocol that wait for soscope: gdbserver's, and those of emulators."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tests.support.machines.crossed import sysroot
from tests.support.machines.tools import need
from tests.support.processes.run import kill

_PATIENCE = 20.0  # seconds


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
            end = time.monotonic() + _PATIENCE
            while (told := re.search(r"Listening on port (\d+)", waiting.said())) is None:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.01)
            named = re.search(r"pid = (\d+)", waiting.said())
            waiting.address = f"localhost:{told[1]}"
            waiting.pid = int(named[1]) if named else 0
            yield waiting
        finally:
            kill(process)


@contextlib.contextmanager
def emulator(arch: str, program: Path, *words: str) -> Iterator[Waiting]:
    """Have qemu wait with a program at its loader's first instruction."""
    place = program.parent / f"stub-{time.monotonic_ns()}"
    process = subprocess.Popen(
        [need(f"qemu-{arch}"), "-g", place, "-L", sysroot(arch), program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + _PATIENCE
        while not place.exists():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        yield Waiting(f"unix:{place}", process)
    finally:
        kill(process)
