# SPDX-License-Identifier: Apache-2.0
"""Take out of a process the agents that killed soscopes and patches have left there."""

from __future__ import annotations

from soscope.control import patch, takeout
from soscope.control.closing import close_unused, waiting
from soscope.entry.agent.resident import Resident, Taken
from soscope.entry.agent.resting import Remains
from soscope.entry.agent.visit import Visit
from soscope.errors import AttachError
from soscope.proc import status
from soscope.proc.status import Refused, in_full

# Reasons why no agent can be in a process.
_NEVER = (status.STATIC, status.VALGRIND, status.FOREIGN, status.BY_LOADER)


class Removed:
    """The result of a detach from process `pid`.

    `agents` has each agent that was taken out, with the result. `remains` has agents with what
    the process keeps of them for the next session. `closed` are the libraries of patches that
    were closed now or before, and `left_loaded` maps the path of each library that stays loaded
    to the reason. `longest_stop` is the longest time in ns that a thread was stopped. `inert`
    counts agents that had nothing to take out.
    """

    __slots__ = ("agents", "closed", "inert", "left_loaded", "longest_stop", "pid", "remains")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.agents: list[tuple[Resident, Taken]] = []
        self.inert = 0
        self.remains: list[tuple[Resident, Remains]] = []
        self.closed: list[str] = []
        self.left_loaded: dict[str, str] = {}
        self.longest_stop = 0


def detach(pid: int) -> Removed:
    """Take every agent out of process `pid` whose soscope has ended, patches included.

    Libraries of patches are closed if no thread is inside them.

    Raises NoSuchProcess, NotPermitted, and AttachError if a living soscope owns an agent or if
    the process cannot be visited.
    """
    removed = Removed(pid)
    unused: list[str] = []
    try:
        visit = Visit(pid)
        try:
            stays: list[str] = []
            for agent in visit.agents:
                stays.append(_remove(visit, agent, removed))
                unused += waiting(agent)
            if unused:
                closing = close_unused(pid, unused)
                removed.closed = closing.closed
                removed.left_loaded |= closing.left
                removed.longest_stop = closing.longest_stop
            for agent, why in zip(visit.agents, stays, strict=True):
                if agent.is_held:
                    patch.let_go(agent)
                    rest = why or takeout.give_rest_back(visit, agent)
                else:
                    rest = why
                removed.remains.append((agent, Remains(visit, agent, rest)))
        finally:
            for agent in visit.agents:
                patch.let_go(agent)
            removed.longest_stop = max(removed.longest_stop, visit.threads.longest)
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


def _remove(visit: Visit, agent: Resident, removed: Removed) -> str:
    """Take one agent out. Return why the memory of its sessions stays mapped, "" if it does not."""
    if owner := agent.owner:
        raise Refused(f"it says that soscope {owner} traces it; stop that one")
    patch.own(visit, agent)
    if agent.has_patches:
        undone = patch.take_out(visit, agent, [])
        removed.agents.append((agent, undone.taken))
        removed.left_loaded |= undone.kept
        return undone.taken.stays
    if not agent.is_hooked:
        removed.inert += 1
        # An agent that is held gives the rest back later, after `let_go`.
        return "" if agent.is_held else takeout.give_rest_back(visit, agent)
    if not agent.is_known:
        raise Refused("another version of soscope has left its hooks; use that one")
    taken = takeout.take_out(visit, agent)
    removed.agents.append((agent, taken))
    return taken.stays
