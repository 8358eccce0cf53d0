# SPDX-License-Identifier: Apache-2.0
"""Make the soscope that observes a process detach from it."""

from __future__ import annotations

import errno
import os
import select
import signal

from soscope.entry.agent.visit import Visit
from soscope.errors import AttachError, NoSuchProcess, NotPermitted
from soscope.proc.status import Refused, read_stat

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
