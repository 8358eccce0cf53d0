# SPDX-License-Identifier: Apache-2.0
"""Processes that have functions of the tests' own in the place of others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.processes.launching import environment
from tests.support.targets import build
from tests.support.targets.matrix import PLAIN, Cell
from tests.support.time import patience


def instead(function: str = "instead", symbol: str = "patchee", library: str = "instead") -> str:
    """Return an argument of --replace."""
    return f"{symbol}={build.library(library)}:{function}"


def soscope(
    *words: str | Path, says: str = "", limit: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run soscope to its end; its standard input is `says`."""
    return subprocess.run(
        [sys.executable, "-m", "soscope", *map(str, words)],
        env=environment(),
        input=says,
        capture_output=True,
        text=True,
        timeout=patience.limit() if limit is None else limit,
        check=False,
    )


def patch(pid: int, *replacements: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """Patch a process; return the JSON document."""
    words = [word for text in replacements for word in ("--replace", text)]
    done = soscope("patch", "-p", str(pid), "--json", *words, *options)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def undo(pid: int, *symbols: str) -> dict[str, Any]:
    """Undo that; return the JSON document."""
    done = soscope("patch", "-p", str(pid), "--json", "--undo", *symbols)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def ask(process: subprocess.Popen[str], word: str = "ask") -> list[int]:
    """Have the target `patched` say what it hears."""
    return [int(each) for each in say(process, word).split()]


def say(process: subprocess.Popen[str], word: str) -> str:
    """Give the target a line, and return its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(word + "\n")
    process.stdin.flush()
    return process.stdout.readline().rstrip("\n")


def target(threads: int = 0, cell: Cell = PLAIN) -> list[str]:
    """Return the command of the target `patched`."""
    return [str(build.program("patched", cell)), str(threads)]


def is_mapped(pid: int, name: str) -> bool:
    """Return whether a file whose path has `name` in it is mapped."""
    return name in Path(f"/proc/{pid}/maps").read_text()
