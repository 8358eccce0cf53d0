# SPDX-License-Identifier: Apache-2.0
"""What objdump and readelf say of the stubs and slots of many ELF files at once."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.machines.tools import need
from tests.support.time.patience import limit

PLT_SECTIONS = (".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt", ".plt.compact")
_PATIENCE = 600  # seconds
_FILE = re.compile(rb"^(.+):     file format (\S+)$")
_STUB = re.compile(rb"^([0-9a-f]+) <(.+)@plt>:$")
_SLOT = re.compile(
    rb"^([0-9a-f]+) +[0-9a-f]+ (R_\w+_(?:JU?MP_SLOT?|GLOB_DAT|IRELATIVE?|TLS_?DESC)) *(.*)$"
)
# value (of an IFUNC: its name and "()"), name[@version] [+ addend]; a number alone is an addend
_NAMED = re.compile(r"(?:[0-9a-f]+|\S+\(\)) +(\S+?)(?:@@?(\S+))?(?: [+-] [0-9a-f]+)?$")


class Row(NamedTuple):
    """A slot as readelf prints it: `kind` may be cut off; `addend` is that of an IRELATIVE."""

    kind: str
    symbol: str
    version: str | None
    addend: int


def _lines(words: Sequence[str], paths: Sequence[str], *, statuses: tuple[int, ...]) -> list[bytes]:
    need(words[0])
    done = subprocess.run(
        [*words, *paths],
        capture_output=True,
        timeout=limit(_PATIENCE),
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert done.returncode in statuses, done.stderr[-2000:]
    return done.stdout.split(b"\n")


def stubs_by_objdump(paths: Sequence[str | Path]) -> dict[str, dict[int, str]]:
    """Return the stubs that `objdump -d` names: file -> vaddr -> symbol.

    It says 1 where a file lacks one of the sections.
    """
    words = ["objdump", "-d", "--no-show-raw-insn", *(f"--section={one}" for one in PLT_SECTIONS)]
    names = [os.fspath(one) for one in paths]
    found: dict[str, dict[int, str]] = {one: {} for one in names}
    stubs: dict[int, str] = {}
    for line in _lines(words, names, statuses=(0, 1)):
        if line.endswith(b"@plt>:"):
            row = _STUB.match(line)
            if row:
                stubs[int(row[1], 16)] = os.fsdecode(row[2])
        elif b":     file format " in line:
            file = _FILE.match(line)
            if file:
                stubs = found[os.fsdecode(file[1])]
    return found


def slots_by_readelf(paths: Sequence[str | Path]) -> dict[str, dict[int, Row]]:
    """Return the slots that `readelf -rW` lists: file -> vaddr -> row; the first of several."""
    names = [os.fspath(one) for one in paths]
    found: dict[str, dict[int, Row]] = {one: {} for one in names}
    slots = found[names[0]] if names else {}
    for line in _lines(["readelf", "-rW"], names, statuses=(0, 1)):
        if line.startswith(b"File: "):
            slots = found[os.fsdecode(line[6:])]
            continue
        row = _SLOT.match(line)
        if row is None:
            continue
        kind, rest = row[2].decode(), os.fsdecode(row[3])
        if "IRELATIV" in kind:
            value = int(rest.split()[-1], 16) if rest.split() else 0
            slots.setdefault(int(row[1], 16), Row(kind, "", None, value))
            continue
        named = _NAMED.match(rest)
        slots.setdefault(
            int(row[1], 16), Row(kind, named[1] if named else "", named[2] if named else None, 0)
        )
    return found


def got_of(path: Path) -> int:
    """Return what `readelf -d` says of DT_PLTGOT, 0 without one."""
    for line in _lines(["readelf", "-dW"], [str(path)], statuses=(0, 1)):
        found = re.search(rb"\(PLTGOT\) +(0x[0-9a-f]+)", line)
        if found:
            return int(found[1], 16)
    return 0
