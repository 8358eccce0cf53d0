# SPDX-License-Identifier: Apache-2.0
"""Damaged and hostile images: an error that names its place, or a partial answer; no more."""

from __future__ import annotations

import random
import tracemalloc
from struct import pack

import pytest

from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.fat import embedded, slices
from soscope.binfmt.macho.filemap import MachoMap, disagreements
from soscope.binfmt.source import BufferSource
from soscope.errors import FormatError
from soscope.model import arch as machines
from tests.support.macho.machosmall import BASE, DATA, LINKEDIT, Small, opened
from tests.unit.binfmt.macho.test_exports import image as with_trie
from tests.unit.binfmt.macho.test_exports import trie
from tests.unit.binfmt.macho.test_fat import fat
from tests.unit.binfmt.macho.test_filemap import CELLS, fixups, lazy_image, pointer

COPIES = 600


def read_all(data: bytes) -> list[MachoMap]:
    """Ask for everything there is. Raises FormatError."""
    source = BufferSource(data)
    maps = [MachoMap(source, one) for one in slices(source)]
    for one in maps:
        assert isinstance(one.slots, tuple)
        assert isinstance(one.symbols, tuple)
        assert isinstance(one.stubs_without_slot, tuple)
        disagreements(one)
    return maps


def chained_image() -> Small:
    image = Small(machines.CPU_ARM64)
    cells = pointer(6, 0, 8) + pointer(6, 1, 16) + bytes(8) + pointer(6, 0, 0)
    image.section("__DATA,__got", DATA, cells, CELLS, 0)
    image.indirect = [image.symbol("_a"), image.symbol("_b"), 1 << 31, 0]
    image.chained(fixups(6, [0xFFFF, 0], [(1, 0, "_a"), (1, 0, "_b")]))
    return image


def samples() -> list[bytes]:
    lazy = lazy_image().built()
    return [lazy, chained_image().built(), with_trie(trie()).built(), fat(lazy, lazy)]


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Return a copy that is cut off, or has some bytes of the first or the last part changed."""
    if dice.random() < 0.25:
        return data[: dice.randrange(len(data))]
    copy = bytearray(data)
    used = [at for at, byte in enumerate(data) if byte]
    for _ in range(dice.randrange(1, 9)):
        at = min(dice.choice(used), len(copy) - 4)
        if dice.random() < 0.5:
            copy[at] ^= 1 << dice.randrange(8)
        else:
            worst = (b"\xff" * 4, bytes(4), b"\xff\xff\xff\x7f", dice.randbytes(4))
            copy[at : at + 4] = dice.choice(worst)
    return bytes(copy)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_copies_are_errors_or_partial(seed: int) -> None:
    dice = random.Random(seed)
    original = samples()[seed]
    whole = [[one.slots, one.symbols] for one in read_all(original)]
    refused: list[FormatError] = []
    partial = 0
    for _ in range(COPIES // 4):
        data = damaged(original, dice)
        try:
            maps = read_all(data)
        except FormatError as error:
            refused.append(error)
            continue
        partial += any(one.partial for one in maps)
        # Where nothing is said to be missing, what is shorter than it was is shorter for a reason.
        if data == original:
            assert [[one.slots, one.symbols] for one in maps] == whole
        embedded(BufferSource(data))
    assert refused
    assert all(one.field and one.offset is not None for one in refused)
    assert partial


def test_a_file_that_is_cut_off_says_so() -> None:
    data = chained_image().built()
    for size in range(0x1010, len(data) - 0x200, 7):
        maps = read_all(data[:size])
        assert maps[0].partial, size


HUGE = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"


@pytest.mark.parametrize(
    "codes",
    [
        b"\x11\x40_a\0\x51\x70\x80\x20\xc0" + HUGE + b"\0",
        b"\x11\x40_a\0\x51\x70\x80\x20\xc0" + HUGE + HUGE,
        b"\x11\x40_a\0\x51\x70\x80\x20" + b"\xc0\xff\x03\0" * 25,
        b"\x90",
        b"\x7f\0\x90",
        b"\x40_a",
        b"\xf0",
        b"\xd0" + HUGE + b"\xd1",
    ],
)
def test_opcodes_without_sense_end_soon(codes: bytes) -> None:
    image = Small(machines.CPU_ARM64)
    image.section("__DATA,__got", DATA, bytes(64), CELLS, 1000)
    image.dyld_info(bind=codes)
    found = image.open()
    assert len(found.binds()) < 2 * image.size
    assert found.partial


def test_a_threaded_chain_that_is_applied_again_and_again_ends() -> None:
    image = Small(machines.CPU_ARM64, subtype=2)
    words = pack("<64Q", *[1 << 51] * 63, 0)
    image.section("__DATA,__got", DATA, words, CELLS, 1000)
    image.size = 0x3000
    codes = b"\x11\xd0\x01\x40_a\0\x51\x90\x70\x80\x20" + b"\xd1" * 0x1000
    image.command(0x80000022, pack("<10I", 0, 0, *image.table(0x2000, codes), 0, 0, 0, 0, 0, 0))
    found = image.open()
    assert list(found.binds()) == []
    assert any("more records" in reason for reason in found.partial)


def test_names_that_overlap_do_not_outgrow_the_file() -> None:
    image = Small(machines.CPU_ARM64)
    image.size = 0x80000
    # 30,000 imports whose names all end where the last one does
    count = 30_000
    rows = b"".join(pack("<I", 1 | (1 + index) << 9) for index in range(count))
    names = b"\0" + b"x" * count + b"\0"
    head = pack("<7I4x", 0, 32, 40, 40 + len(rows), count, 1, 0) + pack("<II", 0, 0)
    image.command(c.LC_DYLD_CHAINED_FIXUPS, pack("<2I", *image.table(0x2000, head + rows + names)))
    data = image.built()
    tracemalloc.start()
    found = opened(data)
    assert list(found.binds()) == []
    assert len(found.cells.fixups.imports) == count
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * len(data)
    assert any("longer than the file" in reason for reason in found.partial)


def test_chains_that_lie_upon_one_another_end() -> None:
    image = Small(machines.CPU_ARM, bits=32)
    cells = b"".join(pack("<I", 1 << 31 | 1 << 26) for _ in range(511)) + pack("<I", 1 << 31)
    image.section("__DATA,__got", DATA, cells, CELLS, 1000)
    starts = [0xFFFF, 0x8002, *[0] * 500, 0x8000]
    image.size = 0x4000
    image.command(
        c.LC_DYLD_CHAINED_FIXUPS,
        pack("<2I", *image.table(0x2000, fixups(3, starts, [(1, 0, "_a")]))),
    )
    found = image.open()
    assert len(found.slots) == 512
    assert any("more pointers" in reason for reason in found.partial)


def test_sections_of_impossible_size_are_partial() -> None:
    data = lazy_image().built()
    for name in (b"__stubs\0", b"__la_symbol_ptr\0"):
        at = data.index(name.ljust(16, b"\0")) + 32 + 8
        found = read_all(data[:at] + pack("<Q", 1 << 62) + data[at + 8 :])
        assert any("the file has" in reason for reason in found[0].partial)


@pytest.mark.parametrize("size", [0, 1, 3, 1 << 31])
def test_stubs_of_impossible_size_are_partial(size: int) -> None:
    data = lazy_image().built()
    at = data.index(b"__stubs\0") + 32 + 16 + 4 * 6
    assert data[at : at + 4] == pack("<I", 6)
    found = read_all(data[:at] + pack("<I", size) + data[at + 4 :])
    assert found[0].partial


def test_an_encrypted_section_is_not_decoded() -> None:
    image = lazy_image()
    image.command(c.LC_ENCRYPTION_INFO_64, pack("<4I", 0x800, 0x100, 1, 0))
    found = image.open()
    assert found.stubs == ()
    assert found.partial == ("section __TEXT,__stubs: encrypted",)


def test_load_commands_beyond_the_file_are_an_error() -> None:
    data = lazy_image().built()
    with pytest.raises(FormatError) as caught:
        read_all(data[:20] + pack("<I", 1 << 31) + data[24:])
    assert caught.value.field == "sizeofcmds"
    assert caught.value.offset == 20


def test_the_base_is_that_of_the_header() -> None:
    assert lazy_image().open().image.base == BASE
    assert LINKEDIT > DATA - BASE


def test_sections_that_lie_upon_one_another_are_read_once() -> None:
    image = Small(machines.CPU_ARM64)
    image.size = 0x10000
    for number in range(8):
        cells = pack("<Q", DATA) * 0x900
        image.section("__DATA,__got", DATA + 0x10000 * number, b"", CELLS, 1000)
        image.sections[-1] = (*image.sections[-1][:3], cells if not number else b"", CELLS, 0, 0)
    data = image.built()
    for number in range(1, 8):
        at = data.index(b"__got".ljust(16, b"\0") + b"__DATA".ljust(16, b"\0"))
        for _ in range(number):
            at = data.index(b"__got", at + 1)
        data = data[: at + 40] + pack("<QI", 0x4800, 0x1000) + data[at + 52 :]
    found = read_all(data)[0]
    assert len(found.slots) == 3 * 0x900
    assert "sections: together they are longer than the file" in found.partial
