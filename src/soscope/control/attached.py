# SPDX-License-Identifier: Apache-2.0
"""A process that the agent was put into while it ran: look at it, then take the agent out again.

The process belongs to somebody else. Without `-f` soscope does not trace it any more once the
agent is in, so its signals, its children and its end are not seen; with `-f` a helper of ours
traces it (see `helper`), until the agent is to be taken out of all that it has executed.
"""

from __future__ import annotations

import os
import time

from soscope.control import takeout
from soscope.control.events import SessionEvents
from soscope.control.exitstatus import ExitStatus
from soscope.control.follow import AgentSource
from soscope.control.lastprogram import program_of
from soscope.control.program import Program
from soscope.control.signals import Signals
from soscope.control.visited import Visited
from soscope.entry.agent.undo import Taken
from soscope.entry.agent.visit import Executed, Visit
from soscope.errors import NoSuchProcess, SoscopeError
from soscope.proc import status
from soscope.proc.named import comm
from soscope.proc.reasons import Refused
from soscope.wire import layout

_HELPER_KILLED = (
    "the part of soscope that follows its children was killed: "
    "what is executed from there on is not seen"
)
_ANOTHER = "another program"
_LOOK = 0.1  # seconds between looks at whether the process still runs its program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from soscope.control.following import Following


class Attached(Visited):
    """A process that the agent was put into."""

    def __init__(
        self,
        visit: Visit,
        program: Program,
        agents: AgentSource,
        signals: Signals,
        events: SessionEvents,
    ) -> None:
        super().__init__(program.pid, signals, events)
        self._first = program
        self._visit = visit
        self._agents = agents
        self._following: Following | None = None
        self._next_look = 0.0
        self._announced = ""

    def follow(self, before: dict[int, int]) -> None:
        """Put the agent into what the process and its children execute from now on.

        `before` are the descendants that it had before the agent was in it: those are left
        alone. Raises AttachError, with the agent taken out.
        """
        from soscope.control.following import Following
        from soscope.control.helper import Helper

        def live(link: socket) -> None:
            Helper(self._first, self._agents, link, self._visit, self._events.asker).run(before)

        try:
            self._following = Following(self._first, self._events, live)
        except BaseException:
            self.close()
            raise

    @property
    def programs(self) -> list[Program]:
        """The programs under observation; the first is the one that ran already."""
        followed = self._following.programs if self._following is not None else []
        return [self._first, *followed]

    @property
    def exit(self) -> ExitStatus | None:
        """How it ended, if that is known: without `follow` it is for its parent to know."""
        return self._following.exit if self._following is not None else None

    @property
    def longest_stop(self) -> int:
        """The longest time that a thread of the process was stopped, in ns."""
        return self._visit.threads.longest

    # ---- parts of the loop ----

    def is_over(self) -> bool:
        """Return whether the process has ended; with `follow` its children, too."""
        if self._following is None:
            return self._look()
        self._following.poll()
        return self._following.is_over

    @property
    def remarks(self) -> list[str]:
        """What was not seen of it."""
        return [f"process {self.pid}: {_HELPER_KILLED}"] if self.lacks_children else []

    @property
    def lacks_children(self) -> bool:
        """Whether nobody has followed its children to the end."""
        return self._following is not None and self._following.was_killed

    def hear(self) -> bool:
        """Hear what has happened to its processes; return whether that is all told."""
        return self._following is None or self._following.hear()

    def _look(self, *, now: bool = False) -> bool:
        """Return whether the process has ended, or runs another program."""
        time_now = time.monotonic()
        if self.has_ended or (time_now < self._next_look and not now):
            return self.has_ended
        self._next_look = time_now + _LOOK
        try:
            status.living_thread(self.pid)
            if self._visit.is_there:
                return False
            if status.has_memory(self.pid):
                self.executed = status.program_path(self.pid) or _ANOTHER
        except SoscopeError:
            pass  # its parent has waited for it
        self.has_ended = True
        if self.executed is None and self._following is None:
            self.executed = self._executed_last()
        return True

    def _executed_last(self) -> str | None:
        """Return the path or name of the program as which the process has ended, None: its own.

        What it executes behind the agent's back is known by its name, as long as its parent has not
        waited for it.
        """
        block = self._first.block
        if block is None:
            return None
        if block.executing:
            return self._announced or _ANOTHER
        name = comm(self.pid) if status.has_ended(self.pid) else ""
        is_renamed = bool(block.agent_flags & layout.AGENT_RENAMED)
        return (
            program_of(name, self._first, may_be_renamed=is_renamed) if self._first.name else None
        )

    def note_exec(self, name: int) -> None:
        """Take note of what the process is about to execute: that may end before the next look."""
        from soscope.control.command import text_in  # few processes do so

        self._announced = text_in(self.pid, name) if name else ""

    def attend(self) -> bool:
        """Hear signals and events while the tick waits; see `Visited.attend`."""
        if self._following is not None:
            self._following.poll()
        return super().attend()

    # ---- the end ----

    def close(self) -> None:
        """Take the agent out and let go of the process. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._following is not None:
                self._following.stop()
            self._take_out()
            self._take_out_of_others()
        finally:
            self._visit.close()
            self._agents.close()
            self._signals.restore()

    def _take_out(self) -> None:
        if self._look(now=True):
            if self._following is not None and self.executed is not None:
                self._take_out_of_next()
            return
        try:
            self.taken = takeout.take_out(self._visit, self._visit.agents[-1])
        except (Executed, NoSuchProcess):
            self.has_ended = True
        except (Refused, SoscopeError, OSError) as error:
            self.failure = str(error)

    def _take_out_of_next(self) -> None:
        """Take the agent out of the program that the process runs by now."""
        self.executed = None
        self.has_ended = False
        try:
            self.taken = _take_out_ours(self.pid)
        except NoSuchProcess:
            self.has_ended = True
        except (Refused, SoscopeError, OSError) as error:
            self.failure = str(error)

    def _take_out_of_others(self) -> None:
        """Take out what children have inherited or got; one that resists is left as it is."""
        others = set(status.descendants(self.pid))
        if self._following is not None:
            others |= self._following.pids
        for pid in others - {self.pid} - self.beside:
            try:
                _take_out_ours(pid)
            except (Refused, SoscopeError, OSError):
                continue  # what resists is left as it is


def _take_out_ours(pid: int) -> Taken:
    """Take out of a process what this soscope owns in it, or one that has ended.

    What a child has inherited is nobody's when it has been taken out of its parent. Raises
    Refused, SoscopeError and OSError.
    """
    total = Taken()
    visit = Visit(pid)
    try:
        for resident in visit.agents:
            if resident.owner in (0, os.getpid()) and resident.is_hooked and resident.is_known:
                taken = takeout.take_out(visit, resident)
                total.restored += taken.restored
                total.left += taken.left
                total.returns += taken.returns
                total.kept += taken.kept
    finally:
        visit.close()
    return total
