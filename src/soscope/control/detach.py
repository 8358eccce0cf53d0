# SPDX-License-Identifier: Apache-2.0
"""Clean up after a soscope that was killed: take its agent out of a process."""

from __future__ import annotations

from soscope.control import takeout
from soscope.control.attach import in_full
from soscope.entry.agent.resident import Resident
from soscope.entry.agent.undo import Taken
from soscope.entry.agent.visit import Visit
from soscope.errors import AttachError
from soscope.proc import reasons
from soscope.proc.reasons import Refused

# No agent can be in these.
_NEVER = (reasons.STATIC, reasons.FOREIGN, reasons.BY_LOADER)


class Removed:
    """What was done in process `pid`: by agent, where it lies and what came of it.

    `longest_stop` is for how long a thread stood still at most, in ns. `inert` counts agents
    that had nothing to take out.
    """

    __slots__ = ("agents", "inert", "longest_stop", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.agents: list[tuple[Resident, Taken]] = []
        self.inert = 0
        self.longest_stop = 0


def detach(pid: int) -> Removed:
    """Take every agent out of process `pid` whose soscope has ended.

    Raises NoSuchProcess, NotPermitted, and AttachError: a living soscope owns one, or the
    process cannot be visited.
    """
    removed = Removed(pid)
    try:
        visit = Visit(pid)
        try:
            for agent in visit.agents:
                _remove(visit, agent, removed)
        finally:
            removed.longest_stop = visit.threads.longest
            visit.close()
    except Refused as refused:
        if refused.reason in _NEVER:
            return removed
        raise AttachError(f"cannot clean up process {pid}: {in_full(refused.reason)}") from refused
    except OSError as error:
        if isinstance(error, (PermissionError, ProcessLookupError)):
            raise
        reason = error.strerror or str(error)
        raise AttachError(f"cannot clean up process {pid}: {reason.lower()}") from error
    return removed


def _remove(visit: Visit, agent: Resident, removed: Removed) -> None:
    if owner := agent.owner:
        raise Refused(f"soscope {owner} traces it; stop that one")
    if not agent.is_hooked:
        removed.inert += 1
        return
    if not agent.is_known:
        raise Refused("another version of soscope has left its hooks; use that one")
    removed.agents.append((agent, takeout.take_out(visit, agent)))
