# SPDX-License-Identifier: Apache-2.0
"""What one record of the loader's data says: which pointer gets which symbol, from where."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from soscope.model.filemap import Signed

# Kinds of records, which `Slot.kind` names.
BIND = "bind"
WEAK_BIND = "weak-bind"
LAZY_BIND = "lazy-bind"
CHAINED_BIND = "chained-bind"
THREADED_BIND = "threaded-bind"
EXTERNAL_RELOCATION = "external-relocation"
# Not from a record, but filled all the same:
INDIRECT_SYMBOL = "indirect-symbol"  # by the indirect symbol table alone (before LC_DYLD_INFO)
REBASE = "rebase"  # an address in this image, which only moves with it

KEYS = ("IA", "IB", "DA", "DB")


class Bind(NamedTuple):
    """One pointer that the loader binds.

    `ordinal` is the library's as of `ordinals`, None where the record has none. `argument` is
    where the record begins in the lazy bind opcodes, which is what a stub helper hands over.
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
    """Which addresses are of interest: those in any of the (start, end) pairs; None is all."""

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
        """Return which of the `count` addresses from `vaddr` on, `step` apart, are wanted."""
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
