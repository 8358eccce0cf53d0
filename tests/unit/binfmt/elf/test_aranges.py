# SPDX-License-Identifier: Apache-2.0
"""What DWARF describes, by .debug_aranges: what nm knows to be compiled, and nothing else."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import encoding
from soscope.binfmt.elf.sections import Sections, _parse, read_aranges
from soscope.binfmt.source import BufferSource
from tests.support.files.elffiles import built, nm

TEXT = "int first(void) { return 1; } int main(void) { return first(); }"


@pytest.mark.parametrize("flags", [("-g",), ("-g", "-gz=zlib"), ("-gdwarf-4",)], ids=" ".join)
def test_what_was_compiled_is_described(flags: tuple[str, ...], tmp_path: Path) -> None:
    path = built(tmp_path, "program", TEXT, *flags)
    elf = ElfImage.from_source(BufferSource(path.read_bytes()))
    found = read_aranges(Sections.read(elf), elf.encoding)
    assert found is not None
    known = {name: (value, size) for value, size, _, name in nm(path)}
    for name in ("first", "main"):
        value, size = known[name]
        assert found.may_have(value)
        assert found.may_have(value + size - 1)
    for name in ("_init", "_fini", "_start", "frame_dummy"):
        assert not found.may_have(known[name][0])


def test_without_any(tmp_path: Path) -> None:
    path = built(tmp_path, "program", TEXT)
    elf = ElfImage.from_source(BufferSource(path.read_bytes()))
    assert read_aranges(Sections.read(elf), elf.encoding) is None


def test_overlaps_and_forms_that_are_not_known() -> None:
    coding = encoding(64, "<")

    def unit(*ranges: tuple[int, int], version: int = 2) -> bytes:
        rows = b"".join(struct.pack("<QQ", *one) for one in (*ranges, (0, 0)))
        return struct.pack("<IHIBB4x", 12 + len(rows), version, 0, 8, 0) + rows

    data = unit((0x1000, 0x1000), (0x1100, 0x10)) + unit((0x9000, 0x10))
    found = _parse(data, coding)
    assert found is not None
    places = [0xFFF, 0x1000, 0x1800, 0x1FFF, 0x2000, 0x8FFF, 0x9000, 0x900F, 0x9010]
    wanted = [False, True, True, True, False, False, True, True, False]
    assert [found.may_have(vaddr) for vaddr in places] == wanted
    assert _parse(unit((1, 1), version=3), coding) is None
    assert _parse(data[:-20], coding) is None
    assert _parse(b"\xff" * 40, coding) is None
