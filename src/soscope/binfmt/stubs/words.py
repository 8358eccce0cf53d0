# SPDX-License-Identifier: Apache-2.0
"""Instructions of four bytes, in either byte order, and the branches of PowerPC."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterator

_BRANCH = re.compile(rb"[\x48-\x4b]")  # the opcode of b and bl, in the first byte


def big_endian(data: bytes, order: str) -> bytes:
    """Return code with each instruction in big-endian order, without bytes left over."""
    if order == ">":
        return data
    words = array("I", data[: len(data) & ~3])
    words.byteswap()
    return words.tobytes()


def numbers(data: bytes) -> array[int]:
    """Return `data` as big-endian numbers of four bytes each."""
    words = array("I", data[: len(data) & ~3])
    if sys.byteorder == "little":
        words.byteswap()
    return words


def signed(data: bytes) -> int:
    """Return big-endian bytes as a signed number."""
    return int.from_bytes(data, "big", signed=True)


def branches(vaddr: int, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (address, target) of every b and bl of PowerPC; `data` is big-endian."""
    words = numbers(data)
    for match in _BRANCH.finditer(data[: len(data) & ~3 : 4]):
        index = match.start()
        word = words[index]
        if not word & 2:
            distance = word & 0x03FF_FFFC
            if distance & 0x0200_0000:
                distance -= 0x0400_0000
            place = vaddr + 4 * index
            yield place, place + distance
