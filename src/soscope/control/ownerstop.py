# SPDX-License-Identifier: Apache-2.0
"""Have the soscope that observes a process let go of it."""

from __future__ import annotations

import errno
import os
import select
import signal

from soscope.entry.agent.visit import Visit
from soscope.errors import AttachError, NotPermitted
from soscope.proc.reasons import Refused

_PATIENCE = 60.0  # seconds: it writes and shows what it has recorded


def stop_owner(pid: int) -> int | None:
    """End the soscope that observes process `pid`, as Ctrl-C does; return its pid.

    None: none does. What it shows and writes is there when this returns.
    Raises NoSuchProcess, NotPermitted, and AttachError: it does not end.
    """
    owner = _owner_of(pid)
    if owner is None:
        return None
    try:
        watched = os.pidfd_open(owner)
    except ProcessLookupError:
        return None
    try:
        if _owner_of(pid) != owner:  # else its pid may be another process's by now
            return None
        signal.pidfd_send_signal(watched, signal.SIGINT)
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


def _owner_of(pid: int) -> int | None:
    try:
        visit = Visit(pid)
    except Refused:
        return None  # no agent can be in it
    try:
        return next((owner for agent in visit.agents if (owner := agent.owner)), None)
    finally:
        visit.close()
