# SPDX-License-Identifier: Apache-2.0
"""Tables of functions that come later, in a control block that is made already."""

from __future__ import annotations

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.wire.block import ControlBlock


def replace_functions(block: ControlBlock, number: int, functions: bytes) -> bool:
    """Give instrument `number` another table of functions; say whether there is room for it.

    Only before the agent is started.
    """
    start, size = block.section(layout.SEC_FUNCTIONS)
    at = block.functions_used + -block.functions_used % 8
    if at + len(functions) > size:
        return False
    block.mapping[start + at : start + at + len(functions)] = functions
    block.functions_used = at + len(functions)
    place = _place(number)
    block.mapping[place : place + 4] = at.to_bytes(4, "little")
    block.keep_layout()
    return True


def add_functions(block: ControlBlock, number: int, build: Callable[[int, int], bytes]) -> bool:
    """Put one table more behind that of instrument `number`; say whether there is room for it.

    The agent may be at work. `build` gets the offset of the new table from the instrument's own
    one, from which its offsets count, and the offset of the one before, 0 without one.
    """
    start, size = block.section(layout.SEC_FUNCTIONS)
    first = block.functions_start(number)
    more = start + first + layout.FUNCTION_TABLE.offset("more")
    at = block.functions_used + -block.functions_used % 8
    content = build(at - first, int.from_bytes(block.mapping[more : more + 4], "little"))
    if at + len(content) > size:
        return False
    block.mapping[start + at : start + at + len(content)] = content
    block.functions_used = at + len(content)
    block.mapping[more : more + 4] = (at - first).to_bytes(4, "little")  # it is whole now
    return True


def ask_no_more(block: ControlBlock, number: int) -> None:
    """Have the agent ask no more questions about functions of instrument `number`."""
    place = _place(number, "flags")
    flags = int.from_bytes(block.mapping[place : place + 4], "little") & ~layout.PLAN_ASKS
    block.mapping[place : place + 4] = flags.to_bytes(4, "little")


def _place(number: int, field: str = "functions") -> int:
    """Return where the control page has a field of an instrument's plan."""
    return layout.CONTROL.offset("plan") + number * layout.PLAN.size + layout.PLAN.offset(field)
