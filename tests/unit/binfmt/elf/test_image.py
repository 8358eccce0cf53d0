# SPDX-License-Identifier: Apache-2.0
"""The ELF reader, on images made for it: every class, byte order and place."""

from __future__ import annotations

import itertools
import re
import zlib
from pathlib import Path

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource, ByteSource
from soscope.errors import FormatError
from soscope.model import arch as machines
from tests.support.files import elffiles
from tests.support.files.elfwriter import Sym, Writer, sample

KINDS = list(itertools.product((64, 32), ("<", ">"), (True, False)))


def from_file(data: bytes) -> ElfImage:
    """Open an image as a file."""
    return ElfImage.from_source(BufferSource(data, "sample"))


class Memory(ByteSource):
    """A source in which an image lies at an address, and nothing else."""

    __slots__ = ("_addr", "_data")

    def __init__(self, data: bytes, addr: int) -> None:
        super().__init__("memory")
        self._data = data
        self._addr = addr

    def read(self, offset: int, size: int) -> bytes:
        """Return what lies there."""
        at = offset - self._addr
        return self._data[at : at + size] if at >= 0 else b""


@pytest.mark.parametrize(("bits", "order", "gnu"), KINDS)
@pytest.mark.parametrize("vaddr", [0, 0x400000])
def test_a_file_is_read(bits: int, order: str, gnu: bool, vaddr: int) -> None:
    writer = sample(bits, order, vaddr, gnu=gnu)
    image = from_file(writer.build(build_id=b"\x12\x34", interpreter="/lib/ld.so"))
    assert image.soname == "libsample.so.1"
    assert image.needed == ["liba.so", "libb.so"]
    assert image.interpreter == "/lib/ld.so"
    assert image.build_id == b"\x12\x34"
    assert image.header is not None
    assert (image.header.encoding.bits, image.header.machine) == (bits, machines.EM_X86_64)


@pytest.mark.parametrize(("bits", "order", "gnu"), KINDS)
def test_names_are_looked_up(bits: int, order: str, gnu: bool) -> None:
    image = from_file(sample(bits, order, gnu=gnu).build())
    exported = image.symbol("exported")
    assert exported is not None
    assert (exported.value, exported.version, exported.size) == (0x1000, "DEF_2", 16)
    assert exported.is_defined
    plain = image.symbol("plain")
    assert plain is not None
    assert (plain.value, plain.version) == (0x1300, None)
    for index in range(20):
        assert image.symbols.addr(f"more{index}") == 0x2000 + index
    assert image.symbol("imported") is None
    assert image.symbol("nothing") is None
    assert image.symbols.addr("nothing") is None


@pytest.mark.parametrize(("bits", "order", "gnu"), KINDS)
def test_of_several_versions_the_default_one_is_found(bits: int, order: str, gnu: bool) -> None:
    image = from_file(sample(bits, order, gnu=gnu).build())
    old = image.symbol("old")
    assert old is not None
    assert (old.value, old.version, old.is_default) == (0x1200, "DEF_2", True)
    both = [symbol for symbol in image.symbols if symbol.name == "old"]
    assert sorted((symbol.version, symbol.is_default) for symbol in both) == [
        ("DEF_1", False),
        ("DEF_2", True),
    ]


@pytest.mark.parametrize(("bits", "order", "gnu"), KINDS)
def test_imported_functions_are_listed(bits: int, order: str, gnu: bool) -> None:
    image = from_file(sample(bits, order, gnu=gnu).build())
    imported = [(symbol.name, symbol.version) for symbol in image.undefined_functions()]
    assert imported == [("imported", "NEED_1"), ("untyped", None), ("loaded", None)]


def test_imports_are_counted_without_any_export() -> None:
    """GNU_HASH says nothing of them then; the relocations do."""
    writer = Writer()
    writer.symbols([Sym("one", section=0, jump_slot=True), Sym("two", section=0, jump_slot=True)])
    names = [symbol.name for symbol in from_file(writer.build()).undefined_functions()]
    assert names == ["one", "two"]


@pytest.mark.parametrize(("bits", "order", "gnu"), KINDS)
@pytest.mark.parametrize("vaddr", [0, 0x400000])
@pytest.mark.parametrize("is_relocated", [True, False])
def test_memory_is_read_whatever_the_loader_did_to_the_pointers(
    bits: int, order: str, gnu: bool, vaddr: int, is_relocated: bool
) -> None:
    bias = 0x7000_0000
    writer = sample(bits, order, vaddr, gnu=gnu)
    if is_relocated:
        tables = {c.DT_SYMTAB, c.DT_GNU_HASH, c.DT_HASH, c.DT_VERSYM, c.DT_VERNEED, c.DT_VERDEF}
        tables |= {c.DT_JMPREL}
        writer.tags = [(tag, value + bias * (tag in tables)) for tag, value in writer.tags]
    data = writer.build(build_id=b"id")
    memory = Memory(data, bias + vaddr)
    for image in (
        ElfImage.from_memory(memory, bias + vaddr),
        ElfImage.from_dynamic(
            memory, bias, bias + vaddr + writer.at["dynamic"], bits=bits, order=order
        ),
    ):
        assert image.load_bias == bias
        assert image.soname == "libsample.so.1"
        assert image.symbols.addr("exported") == 0x1000 + bias
        assert [one.name for one in image.undefined_functions()] == [
            "imported",
            "untyped",
            "loaded",
        ]
    assert ElfImage.from_memory(memory, bias + vaddr).build_id == b"id"


def test_a_static_program_has_nothing_to_say() -> None:
    data = bytearray(sample().build())
    data[64 + 56 : 64 + 60] = bytes(4)  # PT_DYNAMIC
    image = from_file(bytes(data))
    assert image.interpreter is None
    assert image.soname is None
    assert image.needed == []
    assert image.symbol("exported") is None
    assert list(image.symbols) == []
    assert image.undefined_functions() == []


@pytest.mark.parametrize("gnu", [True, False])
def test_a_hash_table_without_buckets_has_nothing(gnu: bool) -> None:
    """glibc's do_lookup_x passes over such an image; it is not damaged."""
    writer = sample(gnu=gnu)
    data = bytearray(writer.build())
    at = writer.at["gnu_hash" if gnu else "sysv_hash"]
    data[at : at + 4] = bytes(4)
    assert from_file(bytes(data)).symbol("exported") is None


# ---- damage ------------------------------------------------------------------


def read_all(image: ElfImage) -> None:
    """Read everything that can be read."""
    _ = image.soname, image.needed, image.interpreter, image.build_id
    image.symbol("exported")
    image.symbol("nothing")
    list(image.symbols)
    image.undefined_functions()


@pytest.mark.parametrize("gnu", [True, False])
def test_a_cut_file_is_a_format_error(gnu: bool) -> None:
    data = sample(gnu=gnu).build(build_id=b"12345678", interpreter="/lib/ld.so")
    for size in range(len(data) - 1):
        with pytest.raises(FormatError) as caught:
            read_all(from_file(data[:size]))
        assert caught.value.field
        assert caught.value.offset is not None
        assert caught.value.field in str(caught.value)
        assert "sample" in str(caught.value)


@pytest.mark.covering(2)
@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("gnu", [True, False])
@pytest.mark.parametrize("value", [0, 0x7F, 0x80, 0xFF])
def test_a_wrong_byte_is_a_format_error_or_read(bits: int, gnu: bool, value: int) -> None:
    good = sample(bits, gnu=gnu).build(build_id=b"12345678", interpreter="/lib/ld.so")
    places: list[tuple[str | None, int | None]] = []
    for at in range(len(good)):
        data = bytearray(good)
        data[at] = value
        try:
            read_all(from_file(bytes(data)))
        except FormatError as error:
            places.append((error.field, error.offset))
    assert all(field and offset is not None for field, offset in places)


def damaged(part: str, at: int, data: bytes, *, gnu: bool = True) -> ElfImage:
    """Overwrite bytes of one part."""
    writer = sample(gnu=gnu)
    image = bytearray(writer.build(build_id=b"12345678", interpreter="/x"))
    start = writer.at[part] + at if part else at
    image[start : start + len(data)] = data
    return from_file(bytes(image))


@pytest.mark.parametrize(
    ("part", "at", "data", "gnu", "field"),
    [
        ("", 0, b"\x7fEXE", True, "e_ident"),
        ("", 4, b"\3", True, "EI_CLASS"),
        ("", 5, b"\3", True, "EI_DATA"),
        ("", 54, b"\1\1", True, "e_phentsize"),
        ("", 56, b"\xfe\xff", True, "e_phnum"),
        ("", 64 + 16, b"\0\0\1", True, "vaddr"),
        ("gnu_hash", 0, b"\xff\xff\xff\xff", True, "DT_GNU_HASH"),
        ("gnu_hash", 4, b"\xff\xff\0\0", True, "DT_GNU_HASH"),
        ("sysv_hash", 8, b"\xff\xff\0\0" * 3, False, "DT_HASH"),
        ("symbols", 24, b"\xff\xff\xff", True, "st_name"),
        ("notes", 4, b"\xff\xff\0\0", True, "PT_NOTE"),
    ],
)
def test_damage_is_named(part: str, at: int, data: bytes, gnu: bool, field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_all(damaged(part, at, data, gnu=gnu))
    assert caught.value.field == field


def test_a_chain_that_runs_in_a_circle_is_a_format_error() -> None:
    writer = sample(gnu=False)
    image = bytearray(writer.build())
    start = writer.at["sysv_hash"]
    count = int.from_bytes(image[start + 4 : start + 8], "little")
    image[start + 8 : start + 20] = (1).to_bytes(4, "little") * 3
    image[start + 20 : start + 20 + 4 * count] = (1).to_bytes(4, "little") * count
    with pytest.raises(FormatError, match="circle"):
        from_file(bytes(image)).symbol("nothing")


def test_a_dynamic_section_without_end_is_a_format_error() -> None:
    class Endless(ByteSource):
        __slots__ = ()

        def read(self, offset: int, size: int) -> bytes:
            assert offset >= 0
            return b"\1" * size

    with pytest.raises(FormatError, match="no DT_NULL"):
        ElfImage.from_dynamic(Endless("endless"), 0, 0x1000)


def test_many_program_headers_are_counted_in_the_first_section_header() -> None:
    data = bytearray(sample().build())
    data[56:58] = b"\xff\xff"
    data[40:48] = len(data).to_bytes(8, "little")
    image = from_file(bytes(data) + bytes(44) + (4).to_bytes(4, "little") + bytes(16))
    assert image.soname == "libsample.so.1"


@pytest.mark.parametrize("table", ["eh_frame_hdr", "none"])
def test_a_file_without_a_build_id_is_told_by_its_headers_and_functions(
    table: str, tmp_path: Path
) -> None:
    """readelf says where the bytes are of which zlib makes the sums."""
    flags = ["-shared", "-fPIC", "-Wl,--build-id=none"]
    if table == "none":
        flags += ["-Wl,--no-eh-frame-hdr", "-fno-asynchronous-unwind-tables"]
    first = elffiles.built(tmp_path, "first", "int f(int x) { return x + 1; }", *flags)
    text = "int g(int x) { return x * x - 7 % (x + 3); }\nint f(void) { return 1; }"
    other = elffiles.built(tmp_path, "other", text, *flags)
    data = first.read_bytes()
    said = elffiles.run("readelf", "-hlW", first)
    at = int(re.search(r"Start of program headers: +(\d+)", said)[1])  # type: ignore[index]
    size = 56 * int(re.search(r"Number of program headers: +(\d+)", said)[1])  # type: ignore[index]
    row = re.search(r"GNU_EH_FRAME +0x(\w+) 0x\w+ 0x\w+ 0x(\w+)", said)
    assert (row is None) == (table == "none")
    start, length = (int(row[1], 16), int(row[2], 16)) if row else (0, 0)
    sums = [zlib.crc32(data[at : at + size]), zlib.crc32(data[start : start + length])]
    image = from_file(data)
    assert image.build_id == b""
    assert image.identity == b"".join(each.to_bytes(4, "little") for each in sums)
    assert from_file(other.read_bytes()).identity != image.identity
