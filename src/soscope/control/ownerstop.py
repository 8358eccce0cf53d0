# SPDX-License-Identifier: Apache-2.0
"""Have the soscope that observes a process let go of it."""

from __future__ import annotations

import errno
import os
import select
import signal

from soscope.entry.agent.visit import Visit
from soscope.errors import AttachError, NoSuchProcess, NotPermitted
from soscope.proc.reasons import Refused
from soscope.proc.status import read_stat

_PATIENCE = 60.0  # seconds: it writes and shows what it has recorded


def stop_owner(pid: int) -> int | None:
    """End the soscope that has attached to process `pid`; return its pid.

    None: none has. What it shows and writes is there when this returns.
    Raises NoSuchProcess, NotPermitted, and AttachError: it does not end, or has started the
    process, which would get the signal.
    """
    owner = _owner_of(pid)
    if owner is None:
        return None
    try:
        watched = os.pidfd_open(owner)
    except ProcessLookupError:
        return None  # it has ended meanwhile, and let go
    try:
        if _owner_of(pid) != owner:  # else its pid may be another process's by now
            return None
        if _is_descendant(pid, owner):
            raise AttachError(
                f"soscope {owner} has started process {pid}, and observes it to its end"
            )
        # shells have what they start in the background ignore SIGINT
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
    """Return whether a process was started by another one, or by one that this has started."""
    at = pid
    while at > 1 and at != ancestor:
        try:
            at = read_stat(at).parent
        except NoSuchProcess:
            if at == pid:
                raise
            at = pid  # one in between has ended: the process has another parent by now
    return at == ancestor


def _owner_of(pid: int) -> int | None:
    try:
        visit = Visit(pid)
    except Refused:
        return None  # no agent can be in it
    try:
        return next((owner for agent in visit.agents if (owner := agent.owner)), None)
    finally:
        visit.close()
