# SPDX-License-Identifier: Apache-2.0
"""Tables of functions that come later, in a plan that is made already."""

from __future__ import annotations

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.wire.block import ControlBlock


def replace_functions(block: ControlBlock, number: int, functions: bytes) -> bool:
    """Give instrument `number` another table of functions; return whether there is room for it.

    Only before the agent is started.
    """
    at = _append(block, functions)
    if at is None:
        return False
    block.replace_functions(number, at)
    return True


def add_functions(block: ControlBlock, number: int, build: Callable[[int, int], bytes]) -> bool:
    """Put one table more behind that of instrument `number`; return whether there is room for it.

    The agent may be at work. `build` gets the offset of the new table from the instrument's own
    one, from which its offsets count, and the offset of the one before, 0 without one.
    """
    start, _ = block.section(layout.SEC_FUNCTIONS)
    first = block.functions_start(number)
    more = start + first + layout.FUNCTION_TABLE.offset("more")
    before = int.from_bytes(block.plan.read(more, 4), "little")
    at = _append(block, build(_end(block) - first, before))
    if at is None:
        return False
    return block.plan.write(more, (at - first).to_bytes(4, "little"))  # it is whole now


def ask_no_more(block: ControlBlock, number: int) -> None:
    """Have the agent ask no more questions about functions of instrument `number`."""
    place = layout.PLAN_HEAD.offset("plan") + number * layout.PLAN.size
    place += layout.PLAN.offset("flags")
    flags = int.from_bytes(block.plan.read(place, 4), "little") & ~layout.PLAN_ASKS
    block.plan.write(place, flags.to_bytes(4, "little"))


def _end(block: ControlBlock) -> int:
    """Return where the next table goes."""
    used = block.plan.field("functions_used")
    return used + -used % 8


def _append(block: ControlBlock, functions: bytes) -> int | None:
    """Put a table behind all others; return its offset, None: there is no room for it."""
    start, size = block.section(layout.SEC_FUNCTIONS)
    at = _end(block)
    if at + len(functions) > size or not block.plan.write(start + at, functions):
        return None
    block.plan.set_field("functions_used", at + len(functions))
    return at
