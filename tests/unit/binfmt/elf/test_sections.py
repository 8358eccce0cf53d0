# SPDX-License-Identifier: Apache-2.0
"""Section headers and static symbols: what readelf and nm say, and files that lie."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.symboltable import SymbolArray, dynamic_table, static_table
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError
from tests.support.files.elffiles import built, nm, run

PROGRAM = """
static int hidden(int a) { return a * 3 + 1; }
int shown(int a) { return a + hidden(a); }
int twice[4] = {1}, nothing[9];
static __thread volatile int each = 4;
int (*volatile way)(int) = hidden;
int main(void) { return way(shown(each)) & twice[0] & nothing[1]; }
"""
FLAGS = [(), ("-m32",), ("-static",), ("-fno-pie", "-no-pie")]


def opened(path: Path) -> ElfImage:
    """Open a file that is small enough to be in memory."""
    return ElfImage.from_source(BufferSource(path.read_bytes(), path.name))


def symbols(image: ElfImage) -> SymbolArray:
    """Read .symtab."""
    return static_table(image.source, Sections.read(image), image.encoding)


def program(folder: Path, flags: tuple[str, ...] = ()) -> Path:
    """Build PROGRAM; skips where the machine has no 32-bit libraries."""
    try:
        return built(folder, "program", PROGRAM, *flags)
    except AssertionError:
        if "-m32" not in flags:
            raise
        return built(folder, "program", PROGRAM, *flags, "-nostdlib", "-fno-pie", "-no-pie")


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_sections_are_those_of_readelf(tmp_path: Path, flags: tuple[str, ...]) -> None:
    path = program(tmp_path, flags)
    wanted = re.findall(
        r"^ *\[ *\d+\] (\S*) +\S+ +([0-9a-f]{8,}) ([0-9a-f]{6}) ([0-9a-f]{6}) ([0-9a-f]{2}) ",
        run("readelf", "-SW", path),
        re.MULTILINE,
    )
    found = Sections.read(opened(path)).all[1:]
    assert [(one.name, one.vaddr, one.offset, one.size, one.entsize) for one in found] == [
        (name, *(int(word, 16) for word in words)) for name, *words in wanted if name
    ]


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_static_symbols_are_those_of_nm(tmp_path: Path, flags: tuple[str, ...]) -> None:
    path = program(tmp_path, flags)
    table = symbols(opened(path))
    wanted = nm(path)
    assert len(wanted) > 5
    for value, size, _, name in wanted:
        base, _, version = name.partition("@")
        found = table.find(base, version.lstrip("@") or None)
        assert (value, size) in [(one.value, one.size) for one in found], name
    (hidden,) = table.find("hidden")
    assert (hidden.type, hidden.binding, hidden.version) == (c.STT_FUNC, c.STB_LOCAL, None)
    (each,) = table.find("each")
    assert (each.type, each.size) == (c.STT_TLS, 4)
    assert table.find("shown")[0].binding == c.STB_GLOBAL
    for missing in ("", "hid", "idden", "shown\0", "program.c", "nowhere"):
        assert not table.find(missing)


def test_names_of_real_files_are_found() -> None:
    path = Path(os.path.realpath("/proc/self/exe"))
    table = symbols(opened(path))
    try:
        wanted = nm(path)
    except AssertionError:  # no symbols at all
        wanted = []
    for value, size, _, name in wanted[::97]:
        base, _, version = name.partition("@")
        found = table.find(base, version.lstrip("@") or None)
        assert (value, size) in [(one.value, one.size) for one in found], name


def test_versions_in_static_names(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("OLD { global: f; local: *; }; NEW { } OLD;")
    path = built(
        tmp_path,
        "libv.so",
        '__asm__(".symver f_old,f@OLD\\n.symver f_new,f@@NEW");'
        "int f_old(void) { return 1; } int f_new(void) { return 2; }"
        '__asm__(".symver g_old,g@OLD"); int g_old(void) { return 3; }',
        "-shared",
        "-fPIC",
        f"-Wl,--version-script={script}",
    )
    table = symbols(opened(path))
    plain, old, new = table.find("f"), table.find("f", "OLD"), table.find("f", "NEW")
    by_name = {name: value for value, _, _, name in nm(path)}
    assert [one.value for one in plain] == [one.value for one in new] == [by_name["f@@NEW"]]
    assert [one.value for one in old] == [by_name["f@OLD"]]
    assert table.find("g") == []
    assert [one.value for one in table.find("g", "OLD")] == [by_name["g@OLD"]]


def test_many_names_are_found_as_few_are(tmp_path: Path) -> None:
    static = program(tmp_path, ("-static",))
    mapped = Path("/proc/self/maps").read_text().split()
    libc = Path(next(word for word in mapped if "libc.so" in word or "libc-2" in word))
    for table in (symbols(opened(static)), dynamic_table(opened(libc))):
        names = {name.partition(b"@")[0].decode() for _, name in table.names()}
        asked = [*sorted(names)[:: max(1, len(names) // 500)], "", "no such name", "_"]
        few = []
        for name in asked:
            table._asked = 0
            few.append([one.index for one in table.find(name)])
        assert table._by_name is None
        many = [[one.index for one in table.find(name)] for name in asked * 2]
        assert table._by_name is not None
        assert many == few * 2
        assert sum(map(bool, few)) > 100


def test_no_section_headers(tmp_path: Path) -> None:
    data = bytearray(program(tmp_path).read_bytes())
    struct.pack_into("<Q", data, 40, 0)  # e_shoff
    image = ElfImage.from_source(BufferSource(bytes(data)))
    sections = Sections.read(image)
    assert (sections.all, sections.why) == ([], "no section headers")
    assert len(static_table(image.source, sections, image.encoding)) == 0


@pytest.mark.parametrize(
    "offset", [1, 64, 0x1000, 0x2FF8, 1 << 20, (1 << 63) - 64, 1 << 63, (1 << 64) - 1]
)
def test_a_garbage_offset_is_no_table(tmp_path: Path, offset: int) -> None:
    data = bytearray(program(tmp_path).read_bytes())
    struct.pack_into("<Q", data, 40, offset)
    sections = Sections.read(ElfImage.from_source(BufferSource(bytes(data))))
    assert sections.all == []
    assert sections.why


def test_a_section_outside_of_the_file_is_an_error(tmp_path: Path) -> None:
    data = bytearray(program(tmp_path).read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data)))
    sections = Sections.read(image)
    place = [one.type for one in sections.all].index(c.SHT_SYMTAB)
    assert image.header is not None
    at = image.header.shoff + 64 * place
    struct.pack_into("<Q", data, at + 24, len(data) - 100)  # sh_offset
    broken = ElfImage.from_source(BufferSource(bytes(data), "broken"))
    with pytest.raises(FormatError, match=r"broken: \.symtab at offset") as caught:
        symbols(broken)
    assert caught.value.offset == len(data) - 100
    assert caught.value.field == ".symtab"
    struct.pack_into("<Q", data, at + 32, 1 << 62)  # sh_size
    with pytest.raises(FormatError, match="over"):
        symbols(ElfImage.from_source(BufferSource(bytes(data))))


@settings(max_examples=200)
@given(st.data())
def test_damaged_section_headers_never_crash(data: st.DataObject) -> None:
    content = bytearray(_SAMPLE)
    start = int.from_bytes(content[40:48], "little")
    for _ in range(data.draw(st.integers(1, 6))):
        where = data.draw(st.integers(40, 63) | st.integers(start, len(content) - 1))
        content[where] = data.draw(st.integers(0, 255))
    try:
        table = symbols(ElfImage.from_source(BufferSource(bytes(content))))
        for name in ("answer", "_start", "x"):
            table.find(name)
        for index in range(len(table)):
            table.symbol(index)
    except FormatError as error:
        refused = error
    else:
        return
    assert refused.offset is not None
    assert refused.field is not None


def _sample() -> bytes:
    """Make a file of a header, .symtab, .strtab and .shstrtab."""
    names = b"\0.symtab\0.strtab\0.shstrtab\0"
    strings = b"\0answer\0_start\0"
    table = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x1000, 42)
    table += struct.pack("<IBBHQQ", 8, 0x10, 0, 1, 0x2000, 0)
    body = table + strings + names
    start = 64 + len(body)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, start, 0, 64, 56, 0, 64, 4, 3)
    rows = bytes(64)
    for name, kind, size, before, link, entry in (
        (1, 2, len(table), 0, 2, 24),
        (9, 3, len(strings), len(table), 0, 0),
        (17, 3, len(names), len(table) + len(strings), 0, 0),
    ):
        rows += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, 64 + before, size, link, 1, 8, entry)
    return head + body + rows


_SAMPLE = _sample()


def test_the_sample_is_read() -> None:
    table = symbols(ElfImage.from_source(BufferSource(_SAMPLE)))
    (answer,) = table.find("answer")
    assert (answer.value, answer.size, answer.type, answer.binding) == (0x1000, 42, 2, 1)
    assert [name for _, name in table.names()] == [b"answer", b"_start"]
    assert [name for _, name in table.names(b"art")] == [b"_start"]
