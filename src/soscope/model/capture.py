# SPDX-License-Identifier: Apache-2.0
"""The argument data that the agent captured of a call, at its entry or at its exit."""

from __future__ import annotations

from soscope.model.record import Record

RESULT_ITEM = 0xFF  # item number of the result
ERRNO_ITEM = 0xFE  # item number of errno at the entry
INJECTED_ITEM = 0xFD  # item number of what was injected into the call
STACK_ITEM = 0xFC  # item number of the number of its stack
VALUES_ITEM = 0xFB  # item number of the values of a va_list, in order
VECTORS_ITEM = 0xFA  # item number of whole vector registers, from the first on

# Kinds of captured data, with the values of `enum sosc_data_kind`.
DATA_WORDS = 1
DATA_STACK = 2
DATA_FLOATS = 3
DATA_STRING = 4  # without the NUL byte at its end
DATA_BYTES = 5
DATA_WORD_AT = 6  # the 8 bytes that a pointer leads to

# Flags of captured data, with the values of `enum sosc_data_flag`.
DATA_TRUNCATED = 1  # the object is longer than the limit
DATA_UNREADABLE = 2  # the pointer could not be read
DATA_NULL = 4  # the pointer was NULL


class Captured(Record):
    """Captured registers, stack words and the memory that pointers led to.

    `words` are the integer argument registers as unsigned 64-bit words, from the first on. At an
    entry there is at least one. `stack` are the words above the return address, from the first
    on. `floats` are the low 8 bytes of the vector argument registers as doubles, from the first
    on; at an exit there is only the result. `data` is item number -> (kind, flags, bytes). An
    item number is the number of an argument in the printed list (0-based), `RESULT_ITEM`,
    `ERRNO_ITEM` or another constant of this module.
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
