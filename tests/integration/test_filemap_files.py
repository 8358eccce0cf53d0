# SPDX-License-Identifier: Apache-2.0
"""Slots of files as they are met: versions and their libraries, what is split off, wrong counts."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from tests.support.files.elffiles import built, run, split
from tests.support.targets import build
from tests.support.targets.matrix import Cell
from tests.support.truth.elftruth import slots_by_readelf
from tests.support.truth.mapcompare import ours, slot_differences

SOURCE = """
    #include <stdio.h>
    #include <stdlib.h>
    FILE *streams[3];
    int (*taken[2])(int);
    int main(int count, char **words)
    {
        streams[0] = stdin, streams[1] = stdout, taken[0] = abs;
        return puts(getenv("HOME")) < 0;
    }"""


def _map(data: bytes, name: str) -> ElfMap:
    return ElfMap(ElfImage.from_source(BufferSource(data, name)))


def _libraries(path: Path) -> dict[str, str]:
    """Return version -> file of all that `readelf -V` says is needed."""
    found = {}
    file = ""
    for line in run("readelf", "-VW", path).splitlines():
        one = re.search(r" File: (\S+) +Cnt:|  Name: (\S+)  Flags: \S+  Version: ", line)
        if one and one[1]:
            file = one[1]
        elif one and file:
            found[one[2]] = file
    return found


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
@pytest.mark.parametrize("name", ["versions", "calls"])
def test_a_version_names_its_library(name: str, linker: str) -> None:
    path = build.program(name, Cell(linker=linker))
    assert list(slot_differences(ours(str(path)), slots_by_readelf([path])[str(path)])) == []
    libraries = _libraries(path)
    slots = _map(path.read_bytes(), str(path)).slots
    assert any(one.version for one in slots)
    for one in slots:
        expected = libraries[one.version] if one.version and not one.defined_here else ""
        assert one.library == expected, one
    if name == "versions":
        found = {one.version for one in slots if one.symbol == "fver"}
        assert found == {"VERS_1", "VERS_2"}


def test_a_file_of_debugging_information_says_that_it_has_no_slots(tmp_path: Path) -> None:
    path = built(tmp_path, "program", SOURCE, "-g")
    assert _map(path.read_bytes(), "program").slots
    split(path, tmp_path / "program.debug")
    debug = _map((tmp_path / "program.debug").read_bytes(), "program.debug")
    assert debug.slots == ()
    assert debug.stubs_without_slot == ()
    assert debug.partial == ["its code is in another file: this one has only debugging information"]
    assert _map(path.read_bytes(), "program").partial == []


@pytest.mark.parametrize(("bits", "tag"), [(64, c.DT_RELACOUNT), (32, c.DT_RELCOUNT)])
def test_a_wrong_count_of_relocations_without_symbol_loses_nothing(
    bits: int, tag: int, tmp_path: Path
) -> None:
    path = built(tmp_path, "program", SOURCE, f"-m{bits}", "-fPIE", "-pie", "-Wl,-z,now")
    data = path.read_bytes()
    image = ElfImage.from_source(BufferSource(data, "program"))
    dynamic = next(one for one in image.segments if one.type == c.PT_DYNAMIC)
    number = image.dynamic.get(tag)
    assert number
    place = [entry for entry, _ in image.dynamic.entries].index(tag)
    word = "<Q" if bits == 64 else "<I"
    at = dynamic.offset + image.encoding.dynamic.size * place + struct.calcsize(word)
    assert struct.unpack_from(word, data, at) == (number,)
    slots = _map(data, "program").slots
    assert {one.symbol for one in slots} >= {"puts", "getenv"}
    for wrong in (0, 1, *range(number + 1, number + 12), 1 << 30):
        changed = bytearray(data)
        struct.pack_into(word, changed, at, wrong)
        assert _map(bytes(changed), "program").slots == slots, wrong
