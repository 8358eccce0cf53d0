# SPDX-License-Identifier: Apache-2.0
"""Tables of functions that are added to a plan after it was made."""

from __future__ import annotations

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.wire.block import ControlBlock


def replace_functions(block: ControlBlock, number: int, functions: bytes) -> bool:
    """Give instrument `number` another table of functions. Return whether there is room for it.

    This is possible only before the agent is started.
    """
    at = _append(block, functions)
    if at is None:
        return False
    block.replace_functions(number, at)
    return True


def add_functions(block: ControlBlock, number: int, build: Callable[[int, int], bytes]) -> bool:
    """Add a table of functions to instrument `number`. Return whether there is room for it.

    The agent may be running meanwhile. `build` gets two offsets from the start of the
    instrument's first table: the offset of the new table, and the offset of the table that was
    added before it (0 if there is none). Offsets in the new table also count from the start of
    the first table.
    """
    start, _ = block.section(layout.SEC_FUNCTIONS)
    first = block.functions_start(number)
    more = start + first + layout.FUNCTION_TABLE.offset("more")
    before = int.from_bytes(block.plan.read(more, 4), "little")
    at = _append(block, build(_end(block) - first, before))
    if at is None:
        return False
    return block.plan.write(more, (at - first).to_bytes(4, "little"))  # the new table is complete


def ask_no_more(block: ControlBlock, number: int) -> None:
    """Make the agent ask no more questions about functions of instrument `number`."""
    place = layout.PLAN_HEAD.offset("plan") + number * layout.PLAN.size
    place += layout.PLAN.offset("flags")
    flags = int.from_bytes(block.plan.read(place, 4), "little") & ~layout.PLAN_ASKS
    block.plan.write(place, flags.to_bytes(4, "little"))


def _end(block: ControlBlock) -> int:
    """Return the offset at which the next table begins."""
    used = block.plan.field("functions_used")
    return used + -used % 8


def _append(block: ControlBlock, functions: bytes) -> int | None:
    """Append a table behind all others. Return its offset, None if there is no room for it."""
    start, size = block.section(layout.SEC_FUNCTIONS)
    at = _end(block)
    if at + len(functions) > size or not block.plan.write(start + at, functions):
        return None
    block.plan.set_field("functions_used", at + len(functions))
    return at
