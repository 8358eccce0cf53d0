# SPDX-License-Identifier: Apache-2.0
"""A program under observation: one exec, with its control block or the reason for having none."""

from __future__ import annotations

from soscope.wire.block import ControlBlock


class Program:
    """One program that a process has executed. Forked children share it.

    `index` counts from 0, and `pid` is the process that executed it. `block` is None if there is
    no agent in it. In that case `reason` tells why (see `soscope.proc.status`). `note` is a
    restriction that the user should know, or None. `marks` are pairs (step,
    time.perf_counter_ns()) of inserting the agent. `preloaded` tells why the agent was inserted
    by the loader instead, or is None if it was not. `name` is the kernel's name of the process
    when the program began, or "" if it is not known. `arch` and `engine` are as in
    `ProcessStart`.
    """

    __slots__ = (
        "arch",
        "block",
        "engine",
        "index",
        "marks",
        "name",
        "note",
        "path",
        "pid",
        "preloaded",
        "reason",
        "time_ns",
    )

    def __init__(self, index: int, pid: int, path: str, time_ns: int) -> None:
        self.index = index
        self.pid = pid
        self.path = path
        self.time_ns = time_ns
        self.block: ControlBlock | None = None
        self.reason: str | None = None
        self.note: str | None = None
        self.preloaded: str | None = None
        self.arch = self.engine = self.name = ""
        self.marks: list[tuple[str, int]] = []
