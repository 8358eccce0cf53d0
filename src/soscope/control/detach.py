# SPDX-License-Identifier: Apache-2.0
"""Remove agents and patches that soscope has left in a process, for `soscope detach`."""

from __future__ import annotations

import errno
import os
import select
import signal

from soscope.control import patch, takeout
from soscope.control.patch import Closing, waiting
from soscope.entry.agent.resident import Resident, Taken
from soscope.entry.agent.resting import Remains
from soscope.entry.agent.visit import Visit
from soscope.errors import AttachError, NoSuchProcess, NotPermitted
from soscope.model.record import fresh
from soscope.proc import status
from soscope.proc.status import Refused, in_full, read_stat

# Reasons why no agent can be in a process.
_NEVER = (status.STATIC, status.VALGRIND, status.FOREIGN, status.BY_LOADER)


class Removed(Closing):
    """The result of a detach from process `pid`.

    `agents` has each agent that was taken out, with the result. `remains` has agents with what
    the process keeps of them for the next session. `closed` has libraries of patches that were
    closed before, too. `inert` counts agents that had nothing to take out. `counts` means that an
    interpreter counts its objects, which `detach` leaves to the instrument that has begun it.

    `owner` is the pid of the soscope that was stopped before, None if there was none.
    `was_counting` means that the interpreter has stopped counting its objects since, with `notes`.
    """

    agents: list[tuple[Resident, Taken]] = fresh(list)
    inert: int = 0
    remains: list[tuple[Resident, Remains]] = fresh(list)
    counts: bool = False
    owner: int | None = None
    was_counting: bool = False
    notes: list[str] = fresh(list)


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
                removed.counts |= agent.is_known and agent.counts_objects
            if unused:
                removed.close_unused(unused)
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
        raise Refused(f"its agent says that soscope {owner} traces it; stop that one")
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


# Make the soscope that observes a process detach from it.

_PATIENCE = 60.0  # seconds in which the other soscope writes and prints what it has recorded


def stop_owner(pid: int) -> int | None:
    """End the soscope that has attached to process `pid`. Return its pid, or None if none has.

    Its output and its recording are complete when this returns. Raises NoSuchProcess,
    NotPermitted, and AttachError if that soscope does not end, or if it has started the process,
    which would then get the signal.
    """
    owner = _owner_of(pid)
    if owner is None:
        return None
    try:
        watched = os.pidfd_open(owner)
    except ProcessLookupError:
        return None  # soscope has ended meanwhile, and so has detached
    try:
        if _owner_of(pid) != owner:  # else the owner's pid may have been reused
            return None
        if _is_descendant(pid, owner):
            raise AttachError(
                f"soscope {owner} has started process {pid}, and observes it to its end"
            )
        # SIGTERM, because shells let background processes ignore SIGINT.
        signal.pidfd_send_signal(watched, signal.SIGTERM)
        if not select.select([watched], [], [], _PATIENCE)[0]:
            raise AttachError(f"soscope {owner}, which observes process {pid}, does not end")
    except PermissionError as error:
        raise NotPermitted(
            f"soscope {owner}, which observes process {pid}, is another user's",
            errno=errno.EPERM,
        ) from error
    finally:
        os.close(watched)
    return owner


def _is_descendant(pid: int, ancestor: int) -> bool:
    """Return whether process `pid` is a descendant of `ancestor`."""
    at = pid
    while at > 1 and at != ancestor:
        try:
            at = read_stat(at).parent
        except NoSuchProcess:
            if at == pid:
                raise
            at = pid  # a process between them has ended: begin again with the new parent
    return at == ancestor


def _owner_of(pid: int) -> int | None:
    try:
        visit = Visit(pid)
    except Refused:
        return None  # no agent can be in the process
    try:
        return next((owner for agent in visit.agents if (owner := agent.owner)), None)
    finally:
        visit.close()
