# SPDX-License-Identifier: Apache-2.0
"""Words that hold their own address: what the C library's structs are known by without symbols."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 1 << 16  # bytes for which the upper part of all addresses is the same
_LOW = 2  # bytes of an address within a block
# Bytes that are looked for: the two behind them are zero, as nearly all of a thread's stack is,
# where `find` goes on byte by byte.
_MIDDLE = 4


def own_words(data: bytes | bytearray, start: int, back: int = 0) -> Iterator[int]:
    """Yield the offset of each word in `data` that holds its own address less `back` bytes.

    `start` is where the data begin, a multiple of 8; offsets rise.

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
