# SPDX-License-Identifier: Apache-2.0
"""The loader's list of images, read from any byte source, class and byte order (<link.h>)."""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import Dynamic, Encoding, Segment, unpack_segments
from soscope.binfmt.source import ByteSource
from soscope.errors import FormatError
from soscope.model.record import Record

_MOST_IMAGES = 1 << 16
_MOST_SEGMENTS = 1024
_MOST_NAME = 4096


class Linked(Record):
    """One entry: its `addr`, the `load_bias` and `path` of its image, and its dynamic section."""

    addr: int
    load_bias: int
    path: str
    dynamic: int


class LoaderList(Record):
    """The contents of `struct r_debug` at `addr`: r_state, and the images in list order."""

    state: int
    images: list[Linked]


def program_segments(source: ByteSource, coding: Encoding, addr: int, count: int) -> list[Segment]:
    """Return the program headers at AT_PHDR. Raises FormatError if they cannot be read."""
    size = min(count, _MOST_SEGMENTS) * coding.segment.size
    table = source.read(addr, size)
    if len(table) < size:
        raise FormatError(f"{source.name}: AT_PHDR leads nowhere", field="AT_PHDR", offset=addr)
    return unpack_segments(coding, table)


def find_debug(
    source: ByteSource, coding: Encoding, dynamic: int, maps: tuple[int, int] = (0, 0)
) -> int:
    """Return the address of `struct r_debug`, 0 if the loader has not set it yet.

    DT_DEBUG holds it. If the dynamic section is read-only, one of the tags `maps` leads to a word
    that holds it: by the distance from the dynamic entry, or by address. Raises FormatError if
    the dynamic section cannot be read.
    """
    read = Dynamic.read(source, coding, dynamic)
    told = read.get(c.DT_DEBUG) or 0
    by_distance, by_addr = maps
    if not by_distance or told:
        return told
    place = read.get(by_addr) or 0
    for number, (tag, value) in enumerate(read.entries):
        if tag == by_distance:
            place = dynamic + number * coding.dynamic.size + value & (1 << coding.bits) - 1
    data = source.read(place, coding.word.size) if place else b""
    return int(coding.word.unpack(data)[0]) if len(data) == coding.word.size else 0


def read_list(source: ByteSource, coding: Encoding, debug: int) -> LoaderList:
    """Return the loader's list. Raises FormatError if it cannot be read or has no end."""
    size = coding.bits // 8
    words = source.read(debug, 4 * size)
    if len(words) < 4 * size:
        raise FormatError(f"{source.name}: r_debug leads nowhere", field="r_debug", offset=debug)
    first = coding.word.unpack_from(words, size)[0]
    state = coding.u32.unpack_from(words, 3 * size)[0]
    images: list[Linked] = []
    at = first
    while at:
        fields = source.read(at, 5 * size)
        if len(fields) < 5 * size or len(images) >= _MOST_IMAGES:
            raise FormatError(f"{source.name}: link_map is damaged", field="link_map", offset=at)
        bias, name, dynamic, following, _ = (
            coding.word.unpack_from(fields, number * size)[0] for number in range(5)
        )
        images.append(Linked(at, bias, _text(source, name), dynamic))
        at = following
    return LoaderList(state, images)


def _text(source: ByteSource, addr: int) -> str:
    data = bytearray()
    while addr and len(data) < _MOST_NAME:
        piece = source.read(addr + len(data), 64)
        end = piece.find(b"\0")
        data += piece if end < 0 else piece[:end]
        if end >= 0 or not piece:
            break
    return data.decode("utf-8", "surrogateescape")
