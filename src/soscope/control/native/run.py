# SPDX-License-Identifier: Apache-2.0
"""What processes share that are traced together, and those of them that run one program."""

from __future__ import annotations

from soscope.control.events import SessionEvents
from soscope.control.native.process import NativeProgram
from soscope.control.program import Program
from soscope.control.remote.wanted import Wanted
from soscope.entry.native.threads import NativeTask
from soscope.wire.recorder import Recorder


class NativeRun:
    """One program that was executed, with its control block; forked children run it, too.

    `processes` is how many have it. `inside` names functions whose calls are seen where they
    begin; not `sees_slots`: no others. `string_limit` is in bytes.
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
        """Hear that one process less runs it; the last one takes the control block with it."""
        self.processes -= 1
        block = self.program.block
        if not self.processes and self.program.index and block is not None:
            self.program.block = None
            block.close()


class Company:
    """All processes that one tracer has. `tasks` are their threads, by number.

    `follows`: children are traced, too. `remarks` say what was not seen, `events` hears of
    processes and signals. `is_leaving`: all of them are being let go of.
    """

    __slots__ = ("events", "follows", "is_leaving", "remarks", "tasks")

    def __init__(self, events: SessionEvents, *, follows: bool) -> None:
        self.events = events
        self.follows = follows
        self.is_leaving = False
        self.remarks: list[str] = []
        self.tasks: dict[int, NativeTask] = {}

    def say(self, remark: str) -> None:
        """Take note of what was not seen, once."""
        if remark not in self.remarks:
            self.remarks.append(remark)
