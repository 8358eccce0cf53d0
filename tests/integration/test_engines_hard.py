# SPDX-License-Identifier: Apache-2.0
"""What is hard on PowerPC for who sees calls by breakpoints at PLT entries, and what we see.

Calls before a first call has returned, out of signals' handlers, out of constructors, of libraries
that come twice, around longjmp and fork, as jumps, and one that never returns.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.isa.ppc.stubs import branches
from soscope.binfmt.source import BufferSource
from tests.support.machines.crossed import account, executed, program, sysroot
from tests.support.processes.run import soscope

pytestmark = pytest.mark.shares

NAMES = "add,again,callback,text"


def _entries(path: Path) -> dict[int, str]:
    """Return the PLT entries of a program that lies where it was linked, with their symbols."""
    mapped = ElfMap(ElfImage.from_source(BufferSource(path.read_bytes(), str(path))))
    entries = branches(mapped)
    wanted = NAMES.split(",")
    return {entries[slot.vaddr]: slot.symbol for slot in mapped.slots if slot.symbol in wanted}


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", ["ppc64le", "ppc"])
def test_hard_cases(tmp_path: Path, arch: str) -> None:
    path = program(tmp_path, arch, "-Wl,-z,lazy", source="crossed_hard", own="-no-pie")
    naive = executed(path, arch, _entries(path), tmp_path / "exec")
    assert naive == {"add": 1, "again": 1, "callback": 1, "text": 1}
    for words in (["--check"], ["--engine", "poison"]):
        log = tmp_path / "log"
        options = ["-c", "--json", "-o", str(log), "--from", "all", "-e", f"{NAMES},exit", *words]
        done = soscope("trace", *options, "--sysroot", sysroot(arch), "--", path)
        assert (done.returncode, done.stdout) == (3, "done\n")
        document = json.loads(log.read_text())
        rows: dict[str, int] = {}
        for row in document["rows"]:
            rows[row["symbol"]] = rows.get(row["symbol"], 0) + row["calls"]
        assert rows.pop("exit") == 1
        truth = account(done.stderr)
        assert rows == truth
        assert document["totals"]["complete"]
        assert truth["again"] == 5  # where entries have 1
        assert truth["add"] > 50
        assert truth["callback"] >= 5
    assert document["engine"] == "poison"
    options = ["-c", "--json", "-o", str(log), "-x", "add", "--sysroot", str(sysroot(arch))]
    done = soscope("trace", *options, "--", path)  # whose points signals interrupt
    (row,) = json.loads(log.read_text())["rows"]
    assert row["calls"] == account(done.stderr)["add"]


def test_signals_between_a_jump_and_what_it_waits_for(tmp_path: Path) -> None:
    """MIPS runs the instruction behind a jump first: a signal there has both run again."""
    path = program(tmp_path, "mips", "-Wl,-z,lazy", source="crossed_hard", own="-no-pie")
    log = tmp_path / "log"
    options = ["-c", "--json", "-o", str(log), "--from", "all", "-e", NAMES, "--check"]
    done = soscope("trace", *options, "--sysroot", sysroot("mips"), "--", path)
    assert (done.returncode, done.stdout) == (3, "done\n")
    rows: dict[str, int] = {}
    for row in json.loads(log.read_text())["rows"]:
        rows[row["symbol"]] = rows.get(row["symbol"], 0) + row["calls"]
    assert rows == account(done.stderr)
    assert "check: sites and slot agree" in done.stderr
