# SPDX-License-Identifier: Apache-2.0
"""Data shared by processes that are traced together, and by processes of one program."""

from __future__ import annotations

from soscope.control.breakpoints.watch import Wanted
from soscope.control.events import SessionEvents
from soscope.control.native.process import NativeProgram
from soscope.control.program import Program
from soscope.entry.native.threads import NativeTask
from soscope.wire.recorder import Recorder


class NativeRun:
    """One executed program, with its control block. Forked children run it, too.

    `processes` is the number of processes that run it. `inside` are names of functions whose
    calls are seen at their first instruction. If `sees_slots` is False, no other calls are seen.
    `string_limit` is in bytes.
    """

    __slots__ = (
        "inside",
        "native",
        "processes",
        "program",
        "recorder",
        "sees_slots",
        "string_limit",
        "wants",
    )

    def __init__(
        self,
        native: NativeProgram,
        program: Program,
        recorder: Recorder,
        wants: Wanted,
        *,
        string_limit: int,
        inside: list[str],
        sees_slots: bool,
    ) -> None:
        self.native = native
        self.program = program
        self.recorder = recorder
        self.wants = wants
        self.string_limit = string_limit
        self.inside = inside
        self.sees_slots = sees_slots
        self.processes = 1

    def leave(self) -> None:
        """Note that one process less runs the program. The last one closes the control block."""
        self.processes -= 1
        block = self.program.block
        if not self.processes and self.program.index and block is not None:
            self.program.block = None
            block.close()


class Company:
    """All processes of one tracer. `tasks` are their threads, by number.

    `follows` is set if children are traced, too. `remarks` tell what was not seen. `events` gets
    processes and signals. `is_leaving` is set while all processes are being detached.
    """

    __slots__ = ("events", "follows", "is_leaving", "remarks", "tasks")

    def __init__(self, events: SessionEvents, *, follows: bool) -> None:
        self.events = events
        self.follows = follows
        self.is_leaving = False
        self.remarks: list[str] = []
        self.tasks: dict[int, NativeTask] = {}

    def say(self, remark: str) -> None:
        """Add a remark on something that was not seen, once."""
        if remark not in self.remarks:
            self.remarks.append(remark)
