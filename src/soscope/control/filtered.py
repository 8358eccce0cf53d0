# SPDX-License-Identifier: Apache-2.0
"""Attach to a process under a seccomp filter only if the filter allows the agent's system calls."""

from __future__ import annotations

from soscope.control.shield import shielded
from soscope.entry import seccomp
from soscope.entry.agent.visit import Visit
from soscope.errors import NotPermitted
from soscope.proc.status import Refused


def check_filters(visit: Visit) -> None:
    """Read the seccomp filters of each thread of the visited process, and test them.

    Raises Refused if a filter forbids a needed system call, NotPermitted if soscope may not read
    the filters, and NoSuchProcess.
    """
    counts = seccomp.suspects(visit.pid)
    if not counts:
        return
    if lack := seccomp.missing_right():
        raise NotPermitted(
            f"process {visit.pid}: its seccomp filter may forbid what the agent needs, "
            f"and cannot be read: {lack}",
            hint="run soscope as root, outside of containers",
        )
    for listed in shielded(lambda: seccomp.read(visit.pid, list(counts))):
        if said := seccomp.objection(list(listed)):
            raise Refused(said)
    visit.filtered = counts
