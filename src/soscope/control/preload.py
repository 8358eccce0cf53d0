# SPDX-License-Identifier: Apache-2.0
"""Insert the agent by LD_PRELOAD if ptrace is forbidden: the loader maps it.

The agent starts before the constructors of all other images. It removes the entries made here
from the new process's environment again (`native/agent/entry/preload.c`), so that programs executed
later get the environment that they would have got. Only the command itself is traced with this
method.
"""

from __future__ import annotations

import os

from soscope.entry.agent.install import Blob
from soscope.wire.block import ControlBlock

NOTE = "the agent went in through LD_PRELOAD; signals and executed programs are not seen"
NOT_STARTED = "its loader did not start the agent named in LD_PRELOAD"

_PRELOAD = b"LD_PRELOAD="
_FOLDER = "/proc/self/fd"  # of the new process; its loader opens the agent there


def is_possible() -> bool:
    """Return whether a loader finds inherited files in /proc. Without it the loader complains."""
    return os.path.isdir(_FOLDER)


def environment(
    entries: list[bytes], descriptors: tuple[int, ...], blob: Blob, block: ControlBlock
) -> list[bytes]:
    """Return `entries` with the entries that make the loader start the agent.

    `descriptors` are the numbers of (blob, control block, plan) that the process inherits, and
    the number of the file of `block.execs` if there is one. A value of LD_PRELOAD that the user
    has set is kept, behind the agent. Two entries are always added: the agent removes as many, so
    that the auxiliary vector behind them stays aligned.
    """
    agent = f"{_FOLDER}/{descriptors[0]}".encode()
    is_taken = any(entry.startswith(_PRELOAD) for entry in entries)
    strip = len(agent) + 1 if is_taken else 0
    execs = descriptors[3] + 1 if block.execs is not None else 0
    numbers = (
        *(*descriptors[:3], execs),
        *(blob.pages_offset, block.target_size, block.plan.size, strip),
    )
    ours = [b"SOSCOPE_PRELOAD=" + b",".join(b"%d" % number for number in numbers)]
    ours.append(b"SOSCOPE_PRELOAD_=" if is_taken else _PRELOAD + agent)
    theirs = [
        _PRELOAD + agent + b":" + entry[len(_PRELOAD) :] if entry.startswith(_PRELOAD) else entry
        for entry in entries
    ]
    return theirs + ours
