# SPDX-License-Identifier: Apache-2.0
"""Programs whose survivors are known, and what `soscope mem` says of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.processes.run import run
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import limit

TARGETS = REPOSITORY / "tests" / "targets" / "mem"
Counts = dict[int, dict[str, int]]

_MARK = re.compile(r"# alive(?: (since|before) 3\.(\d+))?: (.*)$")


@cache
def version(python: str) -> tuple[int, int]:
    """Return the version of an interpreter."""
    words = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=limit(20), check=True)
    major, minor = map(int, said.stdout.split())
    return major, minor


def marks(path: Path, python: str) -> Counts:
    """Return what a program's own marks say: by line, how many objects of which type."""
    marked: Counts = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = _MARK.search(line)
        if mark is None:
            continue
        when, minor, words = mark.groups()
        if when and (version(python)[1] >= int(minor)) != (when == "since"):
            continue
        marked[number] = {}
        if words != "none":
            pairs = (word.split() for word in words.split(", "))
            marked[number] = {kind: int(count) for count, kind in pairs}
    assert marked
    return marked


def soscope(*words: str | os.PathLike[str], **how: Any) -> subprocess.CompletedProcess[str]:
    """Run soscope as a user does."""
    return run([sys.executable, "-m", "soscope", *words], **how)


def report(recording: Path, *words: str) -> dict[str, Any]:
    """Return what a recording says, as a document."""
    done = soscope("mem", "report", "--json", *words, recording)
    assert (done.returncode, done.stderr) == (0, "")
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def counts(document: dict[str, Any], file: str, pid: int | None = None) -> Counts:
    """Return the survivors of one file, as `marks` does."""
    by_line: Counts = {}
    for row in document["survivors"]:
        if row["file"] == file and pid in (None, row.get("pid")):
            by_line.setdefault(row["line"], {})[row["type"]] = row["count"]
    return by_line
