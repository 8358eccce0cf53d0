# SPDX-License-Identifier: Apache-2.0
"""A program under observation: one exec, with its control block or the reason why it has none."""

from __future__ import annotations

from soscope.wire.block import ControlBlock


class Program:
    """One program that a process executed; forked children share it.

    `index` counts from 0, `pid` is the process that executed it. `block` is None where
    `reason` (see `soscope.proc.reasons`) says why there is no agent in it. `note` is a
    degradation that the user should hear of, None if there is none. `marks` are
    (step, time.perf_counter_ns()) of putting the agent in. `preloaded` says why its loader was
    asked to do that instead, None where nobody did. `name` is what the kernel called the process
    when the program began, "" where that is not known. `arch` and `engine` are those of
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
