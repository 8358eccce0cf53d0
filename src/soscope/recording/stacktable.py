# SPDX-License-Identifier: Apache-2.0
"""Reads stacks, and codes among them, from the memory of BLOCKS or TRACE, for a sink.

A thread reserves room for a stack and then fills it, its head last. A stack without a head is
being filled: everything from there on is passed on again until nothing is missing. A record only
refers to complete stacks.
"""

from __future__ import annotations

from soscope.wire import layout
from soscope.wire.block import ControlBlock

_COUNT = (1 << layout.STACK_API) - 1
_KEEPERS = (layout.INSTRUMENT_BLOCKS, layout.INSTRUMENT_TRACE)
_IS_CODE = 1 << layout.STACK_CODE


class StackTable:
    """The stacks of one control block, none if no instrument keeps any."""

    __slots__ = ("_block", "_first", "_room", "_seen", "_used", "_whole")

    def __init__(self, block: ControlBlock) -> None:
        self._block = block
        self._whole = 1  # all words before this one belong to complete stacks
        self._seen = 1  # number of words that were passed on last
        keeper = next(filter(block.own_start, _KEEPERS), None)
        self._room = self._first = self._used = 0
        if keeper is not None:
            start, fields = block.own_start(keeper), layout.BLOCKS
            said = memoryview(block.given(keeper)[: fields.size & ~7]).cast("Q")
            self._room = said[fields.offset("words") // 8]
            self._first = (start + said[fields.offset("first_word") // 8]) // 8
            self._used = (start + fields.offset("words_used")) // 8

    @property
    def used(self) -> int:
        """Return how many words are in use. Numbers of stacks are lower."""
        return min(self._block.words[self._used], self._room) if self._room else 0

    def fresh(self) -> tuple[int, bytes] | None:
        """Return (number of the first word, words) if there are new ones, else None."""
        if not self._room:
            return None
        count = min(self._block.words[self._used], self._room)
        if count <= self._seen and self._whole >= self._seen:
            return None
        first, whole = self._whole, self._skip(self._whole, count)
        if count <= self._seen and whole == first:
            return None
        self._seen, self._whole = max(count, self._seen), whole
        return first, self._words(first, count)

    def rest(self) -> tuple[int, bytes] | None:
        """Return the words that have not been passed on as complete stacks, at the end."""
        if not self._room or self._whole >= self._seen:
            return None
        return self._whole, self._words(self._whole, self._seen)

    def _skip(self, first: int, count: int) -> int:
        """Return the number of the first word from `first` on that is in no complete stack."""
        words, start = self._block.words, self._first
        while first < count:
            head = words[start + first]
            if not head:
                break
            first += 1 + (head >> layout.STACK_SIZE if head & _IS_CODE else head & _COUNT)
        return min(first, count)

    def _words(self, first: int, end: int) -> bytes:
        return self._block.words[self._first + first : self._first + end].tobytes()
