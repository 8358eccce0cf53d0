# SPDX-License-Identifier: Apache-2.0
"""Go into a process under a seccomp filter only if that allows all that will be called there."""

from __future__ import annotations

from soscope.control.guard import guarded
from soscope.errors import NotPermitted
from soscope.process.agent.visit import Visit
from soscope.process.reasons import Refused
from soscope.process.seccomp import calls, filters


def check_filters(visit: Visit) -> None:
    """Read the filters of the process that is visited, thread by thread, and ask them.

    Raises Refused where they forbid something, NotPermitted where we may not read them, and
    NoSuchProcess.
    """
    found = filters.suspects(visit.pid)
    if not found:
        return
    if lack := filters.missing_right():
        raise NotPermitted(
            f"process {visit.pid}: its seccomp filter may forbid what the agent needs, "
            f"and cannot be read: {lack}",
            hint="run soscope as root, outside of containers",
        )
    for one in guarded(lambda: filters.read(visit.pid, list(found))):
        if said := calls.objection(list(one)):
            raise Refused(said)
    visit.filtered = found
