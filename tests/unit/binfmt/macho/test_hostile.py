# SPDX-License-Identifier: Apache-2.0
"""Images that are made to take much: memory, time, or numbers that nothing holds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from struct import pack

import pytest

from soscope.binfmt.macho import image as c
from soscope.binfmt.macho import symbols
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.macho.image import MachoSegment
from soscope.model import arch as machines
from tests.support.macho import machosmall
from tests.support.macho.machosmall import Small, opened
from tests.unit.binfmt.macho.test_filemap import CELLS

BASE = 0x1_0000_0000


def command(number: int, *words: int) -> bytes:
    return pack(f"<{2 + len(words)}I", number, 8 + 4 * len(words), *words)


def segment(vaddr: int, offset: int, size: int, cells: tuple[int, int] = (0, 0)) -> bytes:
    """A segment as large in memory as in the file; `cells` are offset and size of its __got."""
    sections = b""
    if cells[1]:
        sections = b"__got".ljust(16, b"\0") + b"__DATA".ljust(16, b"\0")
        sections += pack(
            "<QQ8I", vaddr + cells[0] - offset, cells[1], cells[0], 0, 0, 0, 6, 0, 0, 0
        )
    body = b"__DATA".ljust(16, b"\0") + pack(
        "<4Q4I", vaddr, size, offset, size, 3, 3, cells[1] > 0, 0
    )
    return pack("<II", c.LC_SEGMENT_64, 8 + len(body + sections)) + body + sections


def built(commands: list[bytes], body: bytes = b"") -> bytes:
    """An arm64 library; `body` lies right behind the load commands."""
    text = b"".join(commands)
    head = pack("<8I", 0xFEEDFACF, machines.CPU_ARM64, 0, 6, len(commands), len(text), 0x85, 0)
    return head + text + body


def test_an_address_beyond_all_of_them_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    high = (1 << 64) - 0x10000
    monkeypatch.setattr(machosmall, "BASE", high)
    monkeypatch.setattr(symbols, "_MANY", 1)
    image = Small(machines.CPU_ARM64, subtype=2)
    signed = 1 << 63 | 0xFFFF_FFFF  # a signed address, 4 GiB behind the image's own
    image.section("__DATA,__got", high + 0x1000, pack("<Q", signed), CELLS, 1000)
    image.symbol("_wrapped", kind=0xF, section=1, value=high + 0xFFFF_FFFF & (1 << 64) - 1)
    starts = pack("<2I", 1, 8) + pack("<IHHQIHH", 24, 0x2000, 9, 0, 0, 1, 0x1000)
    image.chained(pack("<7I", 0, 28, 64, 64, 0, 1, 0) + starts)
    found = opened(image.built())
    assert [one.symbol for one in found.slots] == ["_wrapped"]
    assert not found.partial


def test_segments_that_share_their_starts_do_not_have_them_each() -> None:
    number = 400
    segments = [segment(BASE + at * 0x1000, 0, 0x1000 * (not at)) for at in range(number)]
    table = pack("<I", number) + pack("<I", 4 + 4 * number) * number
    for pages in (1, 30_000):
        starts = pack("<IHHQIH", 0xFFFF_FFFF, 0x1000, 6, 0, 0, pages) + b"\xff" * 60_000
        data = pack("<7I", 0, 28, 28, 28, 0, 1, 0) + table + starts
        length = 32 + 72 * number + 16
        whole = built([*segments, command(0x80000034, length, len(data))], data)
        tracemalloc.start()
        assert opened(whole).binds() == []
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * len(whole)


def test_pages_that_lie_upon_one_another_are_not_read_for_ever() -> None:
    number = 500
    segments = [segment(BASE, 0, 0x20000)] * number
    starts = pack("<IHHQIHH", 24, 0x8000, 6, 0, 0, 1, 0x7FF0)
    table = pack("<I", number) + pack("<I", 4 + 4 * number) * number
    data = pack("<7I", 0, 28, 28, 28, 0, 1, 0) + table + starts
    data += bytes(24 * number)
    length = 32 + 72 * number + 16
    whole = built([*segments, command(0x80000034, length, len(data))], data.ljust(0x20000, b"\0"))
    found: MachoMap = opened(whole)
    assert found.binds() == []
    assert any("more pages" in why for why in found.partial)


def chain_of(number: int) -> bytes:
    """An image with that many cells in one chain, each of which names an import that is none."""
    words = [1 << 63 | (2 << 51 if (at + 1) % 512 else 0) | at for at in range(number)]
    cells = pack(f"<{number}Q", *words)
    pages = (len(cells) + 0xFFF) // 0x1000
    starts = pack("<IHHQIH", 22 + 2 * pages, 0x1000, 2, 0x4000, 0, pages) + bytes(2 * pages)
    table = pack("<7I", 0, 28, 28, 28, 0, 1, 0) + pack("<3I", 2, 0, 12) + starts
    commands = [
        segment(BASE, 0, 0x4000),
        segment(BASE + 0x4000, 0x4000, len(cells), (0x4000, len(cells))),
        command(0x80000034, 0x4000 + len(cells), len(table)),
    ]
    return built(commands).ljust(0x4000, b"\0") + cells + table


def test_not_every_reason_is_kept() -> None:
    found = opened(chain_of(20_000))
    assert len(found.slots) == 20_000
    assert len(found.partial) == 101
    assert "names import 0 of 0" in found.partial[0]
    assert found.partial[-1] == "and more, which are left out"


def test_many_segments_are_not_gone_through_for_each_slot() -> None:
    cells = pack("<2000Q", *range(1, 2001))
    commands = [segment(BASE * 2 + at * 0x1000, 0, 0) for at in range(3000)]
    room = 32 + 72 * 3001 + 80
    commands.append(segment(BASE, 0, room + len(cells), (room, len(cells))))
    found = opened(built(commands, cells))

    class Counted(list[MachoSegment]):
        gone = 0

        def __iter__(self) -> Iterator[MachoSegment]:
            Counted.gone += 1
            return super().__iter__()

    found.image.segments = Counted(found.image.segments)
    assert [one.offset for one in found.slots[:2]] == [room, room + 8]
    assert len(found.slots) == 2000
    assert Counted.gone < 10
