# SPDX-License-Identifier: Apache-2.0
"""Read the first words of many objects at once: memory in spans, split by numpy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from soscope.binfmt.source import ByteSource

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_GAP = 16 << 10  # bytes between two objects that are read together
_SPAN = 4 << 20  # bytes of one read
_PAGE = 4096


def gather(memory: ByteSource, addresses: Words, count: int) -> tuple[Words, Mask]:
    """Return the first `count` words at each address, and which of them could be read.

    Both are of shape (addresses, count). A word that cannot be read is 0. An address that is not
    a multiple of 8 counts as unreadable. Addresses in rising order are quickest.
    """
    size = len(addresses)
    words = np.zeros((size, count), np.uint64)
    if not size:
        return words, np.zeros((0, count), np.bool_)
    order = None
    if size > 1 and (addresses[1:] < addresses[:-1]).any():
        order = np.argsort(addresses, kind="stable")
        addresses = addresses[order]
    last = addresses[-1]
    good = (addresses & np.uint64(7)) == 0
    if last >= 1 << 62:
        good &= addresses < np.uint64(1 << 62)
    mask = np.repeat(good[:, None], count, axis=1)
    for start, end in _spans(addresses, count):
        _pick(memory, addresses[start:end], words[start:end], mask[start:end])
    if order is not None:
        back = np.empty_like(order)
        back[order] = np.arange(size)
        words, mask = words[back], mask[back]
    return words, mask


def _spans(addresses: Words, count: int) -> list[tuple[int, int]]:
    """Return (first, last + 1) as indices of addresses that are read together."""
    cuts = np.flatnonzero(np.diff(addresses) > _GAP + 8 * count) + 1
    edges = [0, *cuts.tolist(), len(addresses)]
    spans = []
    for start, end in pairwise(edges):
        at = start
        while at < end:
            most = int(addresses[at]) + _SPAN
            after = end
            if int(addresses[end - 1]) >= most:
                after = at + int(np.searchsorted(addresses[at:end], np.uint64(most)))
            spans.append((at, after))
            at = after
    return spans


def _pick(memory: ByteSource, addresses: Words, words: Words, mask: Mask) -> None:
    """Read one span, and fill in the words and the mask for its addresses."""
    count = words.shape[1]
    low = int(addresses[0]) & -8
    size = (int(addresses[-1]) & -8) + 8 * count - low
    data = memory.read(low, size) if low < 1 << 62 else b""
    known = None
    if len(data) < size:
        data, known = _by_pages(memory, low, size)
    span = np.frombuffer(data, np.uint64)
    first = ((addresses - np.uint64(low)) >> np.uint64(3)).astype(np.intp)
    for column in range(count):
        words[:, column] = span[first + column]
    if known is not None:
        for column in range(count):
            mask[:, column] &= known[first + column]
    if not mask.all():
        words[~mask] = 0


def _by_pages(memory: ByteSource, low: int, size: int) -> tuple[bytes, Mask]:
    """Read a span page by page; return its bytes, and whether each word could be read."""
    data = bytearray(size)
    known = np.zeros(size // 8, np.bool_)
    at = low
    while at < low + size and at < 1 << 62:
        piece = memory.read(at, low + size - at)
        data[at - low : at - low + len(piece)] = piece
        known[(at - low) // 8 : (at - low + len(piece)) // 8] = True
        at += len(piece)
        if at < low + size:
            at = (at & -_PAGE) + _PAGE  # no memory there
    return bytes(data), known
