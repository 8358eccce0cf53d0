# SPDX-License-Identifier: Apache-2.0
"""What is missing of stacks, when the programs of a session have ended."""

from __future__ import annotations

from struct import unpack_from

from soscope.wire import blocklayout
from soscope.wire.block import ControlBlock

_NO_RUBY = {
    blocklayout.RUBY_NO_FUNCTION: "frames of Ruby are not known: it lacks a function",
    blocklayout.RUBY_NO_LAYOUT: "frames of Ruby are not known: its version is not",
    blocklayout.RUBY_NO_CONTEXT: "frames of Ruby are not known: its threads' states are not found",
    blocklayout.RUBY_WRONG: "frames of Ruby are not known: it has others than its version should",
}


class StackLosses:
    """`lost` counts calls whose stacks found no room."""

    __slots__ = ("_ruby", "lost")

    def __init__(self) -> None:
        self.lost = 0
        self._ruby: set[int] = set()  # why frames of Ruby are not known

    def take(self, block: ControlBlock, instrument: int) -> None:
        """Add what is missing in one program, where `instrument` keeps stacks."""
        head = blocklayout.BLOCKS
        with block.own(instrument) as own:
            if len(own) >= head.size:
                (lost,) = unpack_from("<Q", own, head.offset("stacks_lost"))
                (ruby,) = unpack_from("<Q", own, head.offset("ruby"))
                self.lost += lost
                self._ruby |= {ruby} & _NO_RUBY.keys()

    def notes(self) -> list[str]:
        """Say why frames of an interpreter are missing."""
        return [_NO_RUBY[number] for number in sorted(self._ruby)]
