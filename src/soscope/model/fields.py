# SPDX-License-Identifier: Apache-2.0
"""Where each captured argument of a call stands in the tuple that one struct.unpack returns."""

from __future__ import annotations

from soscope.model.record import Record

FIRST = 0  # index of the first integer register
RESULT = 1  # index of the result; both are unsigned words

# numbers, and for each item of data its length, its flags, and its bytes in pieces
Unpacked = tuple["int | float | bytes", ...]


class Fields(Record):
    """Indices into an `Unpacked` tuple.

    `words`, `stack` and `floats` have the index of each word of the entry, in the order of
    `Captured`. `data` has (index, number of pieces) for each item of the entry, `back` for each
    item of the exit. The length in bytes stands at that index, behind it the flags, then the
    pieces, which together may be longer than the length.
    """

    __slots__ = ("back", "data", "floats", "stack", "words")

    def __init__(self) -> None:
        self.words = [FIRST]
        self.stack: list[int] = []
        self.floats: list[int] = []
        self.data: dict[int, tuple[int, int]] = {}
        self.back: dict[int, tuple[int, int]] = {}
