# SPDX-License-Identifier: Apache-2.0
"""Another table of functions, in a control block that is made already."""

from __future__ import annotations

from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    plan = layout.CONTROL.offset("plan") + number * layout.PLAN.size
    place = plan + layout.PLAN.offset("functions")
    block.mapping[place : place + 4] = at.to_bytes(4, "little")
    return True
