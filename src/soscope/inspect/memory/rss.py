# SPDX-License-Identifier: Apache-2.0
"""The resident memory of a process in six parts, as in every report of `soscope mem`."""

from __future__ import annotations

from soscope.errors import SoscopeError
from soscope.inspect.memory import model
from soscope.inspect.memory.look import look_at
from soscope.live.process import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.heap.memory import BlockPages


def divide(pid: int, objects: BlockPages | None = None) -> list[int] | None:
    """Return the resident bytes of process `pid`: objects, native, slack, files, stacks, other.

    `objects` are blocks that are known to belong to objects. The process is not stopped. Return
    None if its memory cannot be read.
    """
    try:
        with Process(pid, is_gentle=True) as process:
            look = look_at(process, objects)
    except (SoscopeError, OSError, ValueError):
        return None
    return [
        look.resident(*kinds)
        for kinds in (
            (model.OBJECTS,),
            (model.BLOCKS,),
            (model.FREE,),
            (model.FILES,),
            (model.STACKS,),
            (model.SHARED, model.HUGE, model.OTHER),
        )
    ]
