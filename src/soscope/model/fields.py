# SPDX-License-Identifier: Apache-2.0
"""Where what was captured with a call stands, in the fields that one struct has unpacked."""

from __future__ import annotations

from soscope.model.record import Record

FIRST = 0  # the place of the first integer register
RESULT = 1  # and of the result, both as unsigned words

# Numbers, and for each item of data: its length, its flags, and its bytes in pieces.
Unpacked = tuple["int | float | bytes", ...]


class Fields(Record):
    """Places in such a tuple.

    `words`, `stack` and `floats` have that of each, as `Captured` has them: of the entry. `data`
    and `back` have (place, pieces) by item, of the entry and of the exit: at `place` stands the
    length in bytes, then the flags, then as many pieces, which may be longer together.
    """

    __slots__ = ("back", "data", "floats", "stack", "words")

    def __init__(self) -> None:
        self.words = [FIRST]
        self.stack: list[int] = []
        self.floats: list[int] = []
        self.data: dict[int, tuple[int, int]] = {}
        self.back: dict[int, tuple[int, int]] = {}
