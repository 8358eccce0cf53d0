# SPDX-License-Identifier: Apache-2.0
"""Find words that hold their own address, by which structs of the C library are recognised."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 1 << 16  # bytes in which the upper part of all addresses is equal
_LOW = 2  # bytes of an address that differ within a block
# Bytes to search for. The two bytes above them are zero, as are nearly all bytes of a thread's
# stack, through which `find` would go byte by byte.
_MIDDLE = 4


def own_words(data: bytes | bytearray, start: int, back: int = 0) -> Iterator[int]:
    """Yield the offset of each word in `data` that holds its own address less `back` bytes.

    `start` is the address of `data`, a multiple of 8. Offsets rise.

    >>> from soscope.live.heap.ownwords import own_words
    >>> list(own_words(bytes(8) + (0x1008).to_bytes(8, "little"), 0x1000))
    [8]
    """
    end = len(data) - 7
    for block in range(start - back & -_BLOCK, start + len(data) - back, _BLOCK):
        middle = (block // _BLOCK).to_bytes(8, "little")[:_MIDDLE]
        first = max(block - start + back, 0)
        last = min(block + _BLOCK - start + back, end)
        at = data.find(middle, first + _LOW, last + _LOW + _MIDDLE - 1)
        while at >= 0:
            word = at - _LOW
            own = start + word - back
            if not word & 7 and data[word : word + 8] == own.to_bytes(8, "little"):
                yield word
            at = data.find(middle, at + 1, last + _LOW + _MIDDLE - 1)
