# SPDX-License-Identifier: Apache-2.0
"""Others who say where a symbol of a running process is: gdb, drgn, and the usual formula.

Each is asked for the same name in the same moment. `CANNOT` is the answer of one that has no
way to be asked (for one image of several, another thread, a version).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from soscope.live.lookup.answer import parse
from tests.support.time.patience import limit

CANNOT = "cannot be asked"
Said = int | str | None  # an address, CANNOT, or nothing

_PATIENCE = 30  # seconds: a debugger may wait for ever
_DRGN = """\
import sys, drgn
program = drgn.Program()
program.set_pid(int(sys.argv[1]))
try:
    program.load_default_debug_info()
except drgn.MissingDebugInfoError:
    pass  # what has none still has symbols
print(hex(program.symbol(sys.argv[2]).address))
"""


class Question:
    """One question: a query as `soscope resolve` takes it, and how it is asked."""

    def __init__(self, pid: int, query: str, how: dict[str, object]) -> None:
        self.pid = pid
        self.query = query
        self.how = how
        asked = parse(query)
        self.name, self.image, self.version = asked.name, asked.image, asked.version

    @property
    def is_special(self) -> bool:
        """Return whether one namespace, or the view of one image, is meant."""
        return "namespace" in self.how or "seen_from" in self.how


def gdb(question: Question) -> Said:
    """Ask gdb, attached: `print &NAME`, in the thread that is meant."""
    if question.is_special or question.image:
        return CANNOT
    name = f"{question.name}@{question.version}" if question.version else question.name
    words = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    words += ["-p", str(question.pid)]
    thread = question.how.get("thread")
    if thread:
        code = "import gdb; [t.switch() for t in gdb.selected_inferior().threads() "
        words += ["-ex", f"python {code}if t.ptid[1] == {thread}]"]
    words += ["-ex", f"print (void *)&'{name}'"]
    said = re.findall(r"^\$1 = .*?(0x[0-9a-f]+)", _output(words), re.MULTILINE)
    return int(said[0], 16) if said else None


def drgn(python: str) -> Callable[[Question], Said]:
    """Return what asks the drgn that `python` has."""

    def ask(question: Question) -> Said:
        if question.is_special or question.image or question.version or "thread" in question.how:
            return CANNOT
        said = _output([python, "-c", _DRGN, str(question.pid), question.name]).split()
        return int(said[-1], 16) if said and said[-1].startswith("0x") else None

    return ask


def formula(question: Question) -> Said:
    """Take the first file in /proc/PID/maps that has the name: base - p_vaddr + st_value."""
    if question.is_special or "thread" in question.how:
        return CANNOT
    try:
        lines = Path(f"/proc/{question.pid}/maps").read_text(errors="surrogateescape")
    except OSError:
        return None
    bases: dict[str, int] = {}
    for line in lines.splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/"):
            bases.setdefault(fields[5], int(fields[0].partition("-")[0], 16))
    for path, base in bases.items():
        if question.image and question.image not in (path, os.path.basename(path)):
            continue
        value = _value(path, question)
        if value is not None:
            first = re.search(
                r"^\s+LOAD\s+0x\w+ (0x\w+)", _output(["readelf", "-lW", path]), re.MULTILINE
            )
            return base - int(first[1], 16) + value if first else None
    return None


def _value(path: str, question: Question) -> int | None:
    """Return what nm says of a name: exported ones first."""
    wanted = {question.name} if question.version is None else set()
    for sign in ("@", "@@"):
        if question.version is not None:
            wanted.add(f"{question.name}{sign}{question.version}")
    for option in (["-D"], []):
        for line in _output(["nm", *option, "--defined-only", path]).splitlines():
            fields = line.split()
            if len(fields) != 3:
                continue
            full = fields[2]
            base, _, version = full.partition("@@")
            if full in wanted or (question.version is None and version and base in wanted):
                return int(fields[0], 16)
    return None


def _output(words: list[str]) -> str:
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit(_PATIENCE),
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError, ValueError):
        return ""
    return done.stdout


def found(drgn_python: str) -> dict[str, Callable[[Question], Said]]:
    """Return those that are here, by name."""
    peers: dict[str, Callable[[Question], Said]] = {}
    if shutil.which("gdb"):
        peers["gdb"] = gdb
    if _output([drgn_python, "-c", "import drgn; print(drgn.__version__)"]):
        peers["drgn"] = drgn(drgn_python)
    if shutil.which("nm") and shutil.which("readelf"):
        peers["the formula"] = formula
    return peers
