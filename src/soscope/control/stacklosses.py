# SPDX-License-Identifier: Apache-2.0
"""What the recorded stacks lack, known when the programs of a session have ended."""

from __future__ import annotations

from struct import unpack_from

from soscope.wire import layout
from soscope.wire.block import ControlBlock

_NO_RUBY = {
    layout.RUBY_NO_FUNCTION: "frames of Ruby are not known: it lacks a function",
    layout.RUBY_NO_LAYOUT: "frames of Ruby are not known: its version is not",
    layout.RUBY_NO_CONTEXT: "frames of Ruby are not known: its threads' states are not found",
    layout.RUBY_WRONG: "frames of Ruby are not known: it has others than its version should",
}
_NO_PYTHON = {
    layout.PYTHON_NO_FUNCTION: "frames of Python are not known: it lacks a function",
    layout.PYTHON_NO_LAYOUT: "frames of Python are not known: its version is not",
    layout.PYTHON_NO_GIL: "frames of Python are not known: it is a free-threaded build",
    layout.PYTHON_DEBUG: "frames of Python are not known: it is a debug build",
}


class StackLosses:
    """Counts calls whose stacks found no room (`lost`), and keeps why frames are missing."""

    __slots__ = ("_why", "lost")

    def __init__(self) -> None:
        self.lost = 0
        self._why: set[str] = set()  # why interpreter frames are missing

    def take(self, block: ControlBlock, instrument: int) -> None:
        """Add the losses of one program if `instrument` keeps stacks."""
        head = layout.BLOCKS
        with block.own(instrument) as own:
            if len(own) >= head.size:
                (lost,) = unpack_from("<Q", own, head.offset("stacks_lost"))
                self.lost += lost
                for field, reasons in (("ruby", _NO_RUBY), ("python", _NO_PYTHON)):
                    (reason,) = unpack_from("<I", own, head.offset(field))
                    self._why |= {reasons[reason]} if reason in reasons else set()

    def notes(self) -> list[str]:
        """Return sentences that tell why frames of an interpreter are missing."""
        return sorted(self._why)
