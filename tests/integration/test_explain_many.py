# SPDX-License-Identifier: Apache-2.0
"""A symbol with very many slots or stubs: some are looked at, and the others are said to be."""

from __future__ import annotations

from pathlib import Path
from struct import pack

from soscope.binfmt.macho import image as c
from soscope.model import arch as machines
from tests.support.files.explaining import Explain
from tests.support.macho.machosmall import CODE, DATA, Small
from tests.unit.binfmt.macho.test_filemap import CELLS

SLOTS = 100
STUBS = 300


def image(stubs: int, slots: int) -> Small:
    """x86_64: stubs that lead through the slots in turn, all of them of one symbol."""
    made = Small(machines.CPU_X86_64)
    code = b"".join(
        b"\xff\x25" + pack("<i", DATA + 8 * (at % slots) - (CODE + 6 * at + 6))
        for at in range(stubs)
    )
    kind = c.S_SYMBOL_STUBS | c.S_ATTR_PURE_INSTRUCTIONS
    made.section("__TEXT,__stubs", CODE, code, kind, 0, 6)
    made.section("__DATA,__got", DATA, bytes(8 * slots), CELLS, stubs)
    made.indirect = [made.symbol("_puts")] * (stubs + slots)
    step = b"\xc0" + bytes([slots]) + b"\0"
    made.size = 0x4000
    made.dyld_info(bind=b"\x11\x40_puts\0\x51\x70\x80\x20" + step + b"\0")
    return made


def test_many_slots_of_one_symbol(tmp_path: Path, explain: Explain) -> None:
    path = tmp_path / "image"
    path.write_bytes(image(SLOTS, SLOTS).built())
    document = explain(path, "puts", status=1)
    (importer,) = document["images"]
    assert len(document["ways"]) == 32
    assert importer["partial"] == ["68 more slots of _puts are left out"]


def test_many_stubs_of_one_slot(tmp_path: Path, explain: Explain) -> None:
    path = tmp_path / "image"
    path.write_bytes(image(STUBS, 1).built())
    document = explain(path, "puts")
    (importer,) = document["images"]
    (way,) = document["ways"]
    assert len(way["slot"]["stubs"]) == STUBS
    assert "calls of 44 of its 300 stubs were not looked for" in way["steps"][0]["notes"]
    assert importer["partial"] == []
