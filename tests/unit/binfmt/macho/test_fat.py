# SPDX-License-Identifier: Apache-2.0
"""Where the images of a file lie: thin, fat, in archives, and in files that are something else."""

from __future__ import annotations

import random
from struct import pack

import pytest

from soscope.binfmt.macho.fat import embedded, hidden, images, is_macho, slices
from soscope.binfmt.source import BufferSource, length
from soscope.errors import FormatError
from soscope.model import arch as machines
from tests.support.macho.machosmall import Small

ARM = Small(machines.CPU_ARM64, subtype=2).built()
INTEL = Small(machines.CPU_X86_64).built()
PPC = Small(machines.CPU_PPC, bits=32, order=">").built()


class Counting(BufferSource):
    """Counts what is read."""

    __slots__ = ("bytes_read",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.bytes_read = 0

    def read(self, offset: int, size: int) -> bytes:
        data = super().read(offset, size)
        self.bytes_read += len(data)
        return data


def fat(*images: bytes, wide: bool = False) -> bytes:
    table = b""
    body = b""
    start = 0x1000
    for image in images:
        at = start + len(body)
        table += pack(">IIQQII" if wide else ">IIIII", 7, 3, at, len(image), 12, *[0] * wide)
        body += image
    head = pack(">II", 0xCAFEBABF if wide else 0xCAFEBABE, len(images)) + table
    return head.ljust(start, b"\0") + body


def archive(*members: tuple[str, bytes], bsd: bool = True) -> bytes:
    data = b"!<arch>\n"
    for name, image in members:
        text = name.encode()
        field = f"#1/{len(text) + 4}".encode() if bsd else text + b"/"
        body = text + bytes(4) + image if bsd else image
        data += field.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"644".ljust(8)
        data += str(len(body)).encode().ljust(10) + b"`\n" + body + b"\n" * (len(body) % 2)
    return data


def found(data: bytes) -> list[tuple[int, int, str]]:
    return [(one.offset, one.size, one.arch) for one in slices(BufferSource(data))]


def test_a_thin_file_is_one_slice() -> None:
    assert found(PPC) == [(0, len(PPC), "ppc")]


@pytest.mark.parametrize("wide", [False, True])
def test_a_fat_file_has_the_slices_of_its_table(wide: bool) -> None:
    data = fat(INTEL, ARM, PPC, wide=wide)
    size = len(INTEL)
    assert found(data) == [
        (0x1000, size, "x86_64"),
        (0x1000 + size, size, "arm64e"),
        (0x1000 + 2 * size, size, "ppc"),
    ]
    assert is_macho(BufferSource(data))


def test_slices_that_are_no_images_are_left_out() -> None:
    for other in (b"nothing" * 100, b"BC\xc0\xde" * 50, archive(("README", b"text!"))):
        data = fat(INTEL, other)
        assert [arch for *_, arch in found(data)] == ["x86_64"]
        told = images(BufferSource(data)).damaged
        assert len(told) == 1
        assert "is no Mach-O image" in told[0]
    java = pack(">IHH", 0xCAFEBABE, 0, 52) + random.Random(1).randbytes(4000)
    assert not is_macho(BufferSource(java))
    with pytest.raises(FormatError, match="fat_header"):
        slices(BufferSource(java))
    with pytest.raises(FormatError, match="magic"):
        slices(BufferSource(b"\x7fELF" + bytes(100)))


@pytest.mark.parametrize("bsd", [True, False])
def test_an_archive_gives_its_members(bsd: bool) -> None:
    data = archive(("a.o", ARM), ("README", b"text!"), ("b.o", INTEL), bsd=bsd)
    assert [(one.member, one.arch) for one in slices(BufferSource(data))] == [
        ("a.o", "arm64e"),
        ("b.o", "x86_64"),
    ]
    for one, image in zip(slices(BufferSource(data)), (ARM, INTEL), strict=True):
        assert data[one.offset : one.offset + one.size] == image
    both = fat(data, PPC)
    assert [one.member for one in slices(BufferSource(both))] == ["a.o", "b.o", ""]


def test_damaged_slices_are_told() -> None:
    whole = fat(INTEL, ARM, PPC)
    size = len(INTEL)
    assert images(BufferSource(whole)).damaged == []
    cut = images(BufferSource(whole[: 0x1000 + size + size // 2]))
    assert [one.arch for one in cut.slices] == ["x86_64", "arm64e"]
    assert ["the file has" in why for why in cut.damaged] == [True, True]
    header = bytearray(whole)
    header[0x1000 + size + 12] = 0x77  # no kind of file
    found = images(BufferSource(bytes(header)))
    assert [one.arch for one in found.slices] == ["x86_64", "ppc"]
    assert len(found.damaged) == 1
    assert f"mach_header at offset {0x1000 + size:#x}" in found.damaged[0]


def test_slices_that_lie_upon_one_another_are_told() -> None:
    data = archive(*[(f"{number}.o", ARM) for number in range(50)])
    rows = b"".join(pack(">5I", 7, 3, 0x1000 + 2 * at, len(data) - 2 * at, 0) for at in range(60))
    found = images(BufferSource(pack(">2I", 0xCAFEBABE, 60) + rows.ljust(0xFF8, b"\0") + data))
    assert len(found.slices) == 50
    assert len(found.damaged) == 59


@pytest.mark.parametrize("size", [70, 300, 0x2200, 0x2300])
def test_an_archive_that_is_cut_off_says_so(size: int) -> None:
    data = archive(("a.o", ARM), ("b.o", INTEL))
    assert images(BufferSource(data)).damaged == []
    assert images(BufferSource(data[:size])).damaged != []


def test_an_archive_behind_many_fat_headers_is_not_walked_for_each() -> None:
    number = 2000
    data = archive(*[("", b"")] * 2000, bsd=False)
    heads = b"".join(
        pack(">7I", 0xCAFEBABE, 1, 7, 3, 28 * (number - at), len(data), 0) for at in range(number)
    )
    source = Counting(b"data" + heads + data)
    found = hidden(source)
    assert found.slices == []
    assert source.bytes_read < 12 * len(heads + data)


def test_images_in_other_files_are_found() -> None:
    noise = random.Random(2).randbytes(100_001)
    inner = fat(INTEL, ARM)
    # 1 MiB: the second magic lies over the border of two pieces that are read
    gap = bytes((1 << 20) - 2 - len(noise) - len(PPC))
    data = noise + PPC + gap + ARM + b"\xca\xfe\xba\xbe" + bytes(50) + inner + noise
    at = len(noise + PPC + gap + ARM) + 54
    assert [(one.offset, one.size, one.arch) for one in embedded(BufferSource(data))] == [
        (len(noise), len(PPC), "ppc"),
        ((1 << 20) - 2, len(ARM), "arm64e"),
        (at + 0x1000, len(INTEL), "x86_64"),
        (at + 0x1000 + len(INTEL), len(ARM), "arm64e"),
    ]


def test_images_within_images_are_found() -> None:
    image = Small(machines.CPU_X86_64)
    image.size = 0x20000
    outer = bytearray(image.built())
    inner = fat(PPC, ARM)
    outer[0x8000 : 0x8000 + len(inner)] = inner
    found = embedded(BufferSource(bytes(outer)))
    assert [(one.offset, one.arch) for one in found] == [
        (0, "x86_64"),
        (0x9000, "ppc"),
        (0x9000 + len(PPC), "arm64e"),
    ]


def test_images_of_a_shared_cache_are_none_by_themselves() -> None:
    data = bytearray(ARM)
    at = data.index(b"__ALL") + 16 + 16  # the segment's file offset
    assert data[at : at + 8] == bytes(8)
    data[at : at + 16] = pack("<QQ", 0x400, 0x100)
    assert embedded(BufferSource(bytes(0x400) + bytes(data))) == []


def test_load_commands_that_lie_upon_one_another_are_not_read_for_ever() -> None:
    size = 1 << 20
    header = pack("<8I", 0xFEEDFACF, machines.CPU_ARM64, 0, 2, 1000, size // 2, 0, 0)
    source = Counting(header * (size // 32))
    assert embedded(source) == []
    assert source.bytes_read < 100 * size


def test_a_magic_alone_is_no_image() -> None:
    data = bytearray(random.Random(3).randbytes(1 << 16))
    for at in range(0, len(data) - 8, 40):
        data[at : at + 4] = b"\xcf\xfa\xed\xfe"
    assert embedded(BufferSource(bytes(data))) == []


@pytest.mark.parametrize("size", [0, 1, 2, 3, 63, 64, 65, 4095, 100_000])
def test_the_length_of_a_source_is_found(size: int) -> None:
    assert length(BufferSource(bytes(size))) == size
