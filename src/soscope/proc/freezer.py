# SPDX-License-Identifier: Apache-2.0
"""Control groups whose processes are frozen, as by `docker pause`.

A tracer can stop the threads of frozen processes, but they run no instruction afterwards (Linux,
Documentation/admin-guide/cgroup-v2.rst, "cgroup.events").
"""

from __future__ import annotations


def frozen_group(pid: int) -> str:
    """Return the folder of the frozen control group that a process is in, "" if there is none."""
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            groups = [line[3:].strip() for line in file if line.startswith(b"0::")]
        with open("/proc/self/mountinfo", "rb") as file:
            places = [line.split()[4] for line in file if b" - cgroup2 " in line]
        for group in groups:
            for place in places:
                folder = place + group.rstrip(b"/")
                with open(folder + b"/cgroup.events", "rb") as file:
                    if b"frozen 1\n" in file.read():
                        return folder.decode(errors="replace")
    except OSError:
        return ""  # the root group, which is never frozen, or a hidden one
    return ""
