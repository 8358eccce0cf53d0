# SPDX-License-Identifier: Apache-2.0
"""One record of the loader's data: a pointer, its symbol, and the symbol's library."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from soscope.model.filemap import Signed

# Kinds of records, for `FileSlot.kind`.
BIND = "bind"
WEAK_BIND = "weak-bind"
LAZY_BIND = "lazy-bind"
CHAINED_BIND = "chained-bind"
THREADED_BIND = "threaded-bind"
EXTERNAL_RELOCATION = "external-relocation"
# Kinds of slots that are filled without a record.
INDIRECT_SYMBOL = "indirect-symbol"  # by the indirect symbol table (before LC_DYLD_INFO)
REBASE = "rebase"  # an address in this image, which only moves with it

KEYS = ("IA", "IB", "DA", "DB")


class Bind(NamedTuple):
    """One pointer that the loader binds.

    `ordinal` is the library's, as in `ordinals`, None if the record has none. `argument` is the
    offset of the record in the lazy bind opcodes, which a stub helper passes on.
    """

    vaddr: int
    name: str
    ordinal: int | None
    kind: str
    addend: int = 0
    weak_import: bool = False
    signed: Signed | None = None
    argument: int | None = None


class Ranges:
    """A set of wanted addresses: those in any of the (start, end) pairs; None means all."""

    __slots__ = ("_edges", "pairs")

    def __init__(self, pairs: list[tuple[int, int]] | None) -> None:
        self.pairs: list[tuple[int, int]] | None = None
        self._edges: list[int] = []
        if pairs is None:
            return
        self.pairs = []
        for start, end in sorted(pairs):
            if start >= end:
                continue
            if self.pairs and start <= self.pairs[-1][1]:
                self.pairs[-1] = (self.pairs[-1][0], max(end, self.pairs[-1][1]))
            else:
                self.pairs.append((start, end))
        self._edges = [edge for pair in self.pairs for edge in pair]

    def has(self, vaddr: int) -> bool:
        """Return whether `vaddr` is wanted."""
        return self.pairs is None or bool(bisect_right(self._edges, vaddr) & 1)

    def steps(self, vaddr: int, count: int, step: int) -> list[range]:
        """Return which of `count` addresses from `vaddr` on, `step` apart, are wanted.

        The result is ranges of indices.
        """
        if count <= 0 or step <= 0:
            return []
        every = range(vaddr, vaddr + count * step, step)
        if self.pairs is None:
            return [every]
        ranges = []
        for start, end in self.pairs:
            first = max(0, -((vaddr - start) // step))
            last = min(count, -((vaddr - end) // step))
            if first < last:
                ranges.append(every[first:last])
        return ranges
