# SPDX-License-Identifier: Apache-2.0
"""Functions' ranges by the unwind tables, against pyelftools, and damaged tables."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import pytest

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.unwind import code_ranges
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError
from soscope.linker.library import open_image
from tests.support.files.elffiles import built, nm
from tests.support.machines.tools import need
from tests.support.time.patience import within_cpu

CODE = """
__attribute__((noinline)) int first(int a) { return a * 3; }
__attribute__((noinline)) int second(int a) { return first(a) + first(a + 1); }
int main(int argc, char **argv) { return second(argc); }
"""


def by_pyelftools(data: bytes) -> list[tuple[int, int]]:
    from elftools.dwarf.callframe import FDE
    from elftools.elf.elffile import ELFFile

    frames = ELFFile(io.BytesIO(data)).get_dwarf_info().EH_CFI_entries()
    found = [one.header for one in frames if isinstance(one, FDE)]
    return sorted({(one.initial_location, one.address_range) for one in found})


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("ehframe"), "program", CODE)


@pytest.mark.parametrize(
    "path", ["/lib64/ld-linux-x86-64.so.2", "/lib32/ld-linux.so.2", "/usr/bin/gcc"]
)
def test_what_pyelftools_reads(path: str) -> None:
    need(path)
    found = code_ranges(open_image(path))
    assert len(found) > 100
    assert found == by_pyelftools(Path(path).read_bytes())


def test_a_function_is_as_long_as_its_symbol_says(program: Path) -> None:
    ranges = dict(code_ranges(open_image(str(program))))
    sizes = {value: size for value, size, letter, _ in nm(program) if letter in "tT" and size}
    assert len(sizes) >= 3
    assert {vaddr: ranges.get(vaddr) for vaddr in sizes} == sizes


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_every_linker(tmp_path: Path, linker: str) -> None:
    need(f"ld.{linker}" if linker != "mold" else "mold")
    path = built(tmp_path, "linked", CODE, f"-fuse-ld={linker}")
    found = code_ranges(open_image(str(path)))
    assert len(found) >= 3
    assert set(found) <= set(by_pyelftools(path.read_bytes()))


def test_a_file_without_the_table_of_its_entries(program: Path) -> None:
    data = bytearray(program.read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data)))
    wanted = code_ranges(image)
    segment = next(one for one in image.segments if one.type == 0x6474E550)
    data[segment.offset + 2] = data[segment.offset + 3] = 0xFF  # DW_EH_PE_omit
    assert code_ranges(ElfImage.from_source(BufferSource(bytes(data)))) == wanted


def test_a_file_without_unwind_tables(tmp_path: Path) -> None:
    flags = ("-nostdlib", "-static", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
    path = built(tmp_path, "bare", "void _start(void) { for (;;); }", *flags)
    assert code_ranges(open_image(str(path))) == []


def test_a_table_that_is_longer_than_its_file(program: Path) -> None:
    data = bytearray(program.read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data)))
    segment = next(one for one in image.segments if one.type == 0x6474E550)
    struct.pack_into("<I", data, segment.offset + 8, 0x7FFFFFFF)
    with pytest.raises(FormatError) as caught:
        code_ranges(ElfImage.from_source(BufferSource(bytes(data))))
    assert (caught.value.field, caught.value.offset) == (".eh_frame", segment.offset + 12)


def test_damaged_tables_are_an_error_or_an_answer(program: Path) -> None:
    whole = program.read_bytes()
    image = ElfImage.from_source(BufferSource(whole))
    segment = next(one for one in image.segments if one.type == 0x6474E550)
    chance = random.Random(7)
    outcomes = set()
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(segment.offset, segment.offset + segment.filesz + 200)] = (
                chance.randrange(256)
            )
        with within_cpu(1):  # a tenth of a millisecond, mostly
            try:
                found = code_ranges(ElfImage.from_source(BufferSource(bytes(data))))
                outcomes.add("ranges" if found else "nothing")
            except FormatError as error:
                outcomes.add("error" if error.field and error.offset is not None else "nowhere")
    assert {"ranges", "error"} <= outcomes <= {"ranges", "error", "nothing"}
