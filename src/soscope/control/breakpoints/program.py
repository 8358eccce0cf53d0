# SPDX-License-Identifier: Apache-2.0
"""Programs that are traced by breakpoints: what every engine knows of one, and what it records."""

from __future__ import annotations

import time

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import Encoding, Segment
from soscope.control.breakpoints.watch import SlotSelection
from soscope.control.command import ExitStatus
from soscope.control.program import Program, SessionEvents
from soscope.control.settings import Hooks, SessionSettings
from soscope.entry.remote.convention import Convention
from soscope.linker.paths import Root
from soscope.model.arch import Arch
from soscope.recording.clock import Sampler
from soscope.wire.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


BRK_NAME = "_dl_debug_state"  # the function of glibc's loader that `r_brk` leads to (rtld.c)


class TracedProgram:
    """One program. `path` is its file here, and `root` the root of its system.

    `coding` has its words, and `convention` is how its functions are called.
    """

    __slots__ = ("arch", "coding", "convention", "path", "root")

    path: str
    root: Root
    arch: Arch
    coding: Encoding
    convention: Convention


class ProgramRun:
    """One executed program, with its control block, which forked children share.

    `program` is the session's record of it, and `traced` has its file. `recorder` writes its
    calls, and `selection` decides which. `inside` are names of functions whose calls are seen at
    their first instruction. `string_limit` is in bytes.
    """

    __slots__ = ("inside", "program", "recorder", "selection", "string_limit", "traced")

    def __init__(
        self,
        program: Program,
        traced: TracedProgram,
        hooks: Hooks,
        settings: SessionSettings,
        make_room: Callable[[], object],
    ) -> None:
        """Begin to record. `program` must have its block. `make_room` empties a full ring."""
        assert program.block is not None
        self.program = program
        self.traced = traced
        self.recorder = Recorder(program.block, Sampler().ticks, make_room)
        self.selection = SlotSelection(hooks, traced.convention, traced.arch, traced.coding)
        self.string_limit = hooks.string_limit
        self.inside = settings.inside


class Company:
    """All processes that one part of soscope traces together.

    `events` gets their comings, ends and signals. `follows` is set if children are traced, too.
    `is_leaving` is set while all processes are being detached. `said` are remarks on what was not
    seen.
    """

    __slots__ = ("events", "follows", "is_leaving", "said")

    def __init__(self, events: SessionEvents, *, follows: bool) -> None:
        self.events = events
        self.follows = follows
        self.is_leaving = False
        self.said: list[str] = []

    def say(self, remark: str) -> None:
        """Add a remark on something that was not seen, once."""
        if remark not in self.said:
            self.said.append(remark)

    def signalled(self, pid: int, tid: int, number: int) -> None:
        """Report a signal that is about to be delivered."""
        self.events.on_signal(pid, tid, number, time.time_ns())

    def forked(self, pid: int, parent: int, run: ProgramRun) -> None:
        """Report a child `pid`, which goes on with the program of `run`."""
        self.events.on_process("fork", pid, parent, run.program, time.time_ns())

    def ended(self, pid: int, how: ExitStatus) -> None:
        """Report the end of a process."""
        self.events.on_exit(pid, how.status, how.signal, time.time_ns())


def dynamic_of(segments: list[Segment]) -> int | None:
    """Return the link-time address of the dynamic section, None if there is none."""
    return next((each.vaddr for each in segments if each.type == c.PT_DYNAMIC), None)
