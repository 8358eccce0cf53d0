# SPDX-License-Identifier: Apache-2.0
"""A thread under observation."""

from __future__ import annotations

from soscope.control.program import Program
from soscope.entry.agent.put_in import PutIn


class Task:
    """One thread; that of a process without further threads has `tid` == `pid`.

    `is_seized` says whether we trace it, `put_in` is there while its program is loaded,
    `stopped` is the signal of the group stop it is in, 0 if none. `has_executed` is false only
    for the process that soscope forked, until that executes the command.
    """

    __slots__ = ("has_executed", "is_seized", "pid", "program", "put_in", "stopped", "tid")

    def __init__(self, tid: int, pid: int, program: Program | None, *, is_seized: bool) -> None:
        self.tid = tid
        self.pid = pid
        self.program = program
        self.is_seized = is_seized
        self.put_in: PutIn | None = None
        self.stopped = 0
        self.has_executed = False
