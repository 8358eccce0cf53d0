# SPDX-License-Identifier: Apache-2.0
"""What the agent kept of a call's arguments, at its entry or at its exit."""

from __future__ import annotations

from soscope.model.record import Record

RESULT_ITEM = 0xFF  # the item number of the result
ERRNO_ITEM = 0xFE  # and of errno at the entry
INJECTED_ITEM = 0xFD  # and of what was done to the call
STACK_ITEM = 0xFC  # and of the number of its stack
VALUES_ITEM = 0xFB  # and of what a va_list had, in order
VECTORS_ITEM = 0xFA  # and of whole vector registers, from the first on

# Kinds of captured data; the values are those of `enum sosc_data_kind`.
DATA_WORDS = 1
DATA_STACK = 2
DATA_FLOATS = 3
DATA_STRING = 4  # without its NUL
DATA_BYTES = 5
DATA_WORD_AT = 6  # the 8 bytes a pointer leads to

# Flags of captured data; the values are those of `enum sosc_data_flag`.
DATA_TRUNCATED = 1  # there was more than the limit
DATA_UNREADABLE = 2  # the pointer could not be read
DATA_NULL = 4  # the pointer was NULL


class Captured(Record):
    """Captured registers, stack words and the memory that pointers led to.

    `words`: integer argument registers as unsigned 64-bit words from the first on; at an
    entry at least one. `stack`: words above the return address from the first on. `floats`:
    the low 8 bytes of vector argument registers from the first on, as doubles; at an exit
    the one result. `data`: item number -> (kind, flags, bytes); an item is the number of the
    argument that is shown (0-based), `RESULT_ITEM` or `ERRNO_ITEM`.
    """

    __slots__ = ("data", "floats", "stack", "words")

    def __init__(
        self,
        words: tuple[int, ...] = (),
        stack: tuple[int, ...] = (),
        floats: tuple[float, ...] = (),
        data: dict[int, tuple[int, int, bytes]] | None = None,
    ) -> None:
        self.words = words
        self.stack = stack
        self.floats = floats
        self.data = {} if data is None else data


NOTHING = Captured()
