# SPDX-License-Identifier: Apache-2.0
"""A process that the agent was put into while it ran: watch it, then take the agent out again.

soscope did not start the process. Without `-f` soscope does not trace it once the agent is in, so
its signals, its children and its end are not seen. With `-f` a helper process of soscope traces
it (see `helper`) until the agent has to be taken out of everything that the process has executed.
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
from soscope.entry.agent.resident import Taken
from soscope.entry.agent.visit import Executed, Visit
from soscope.errors import NoSuchProcess, SoscopeError
from soscope.proc import status
from soscope.proc.status import Refused, comm
from soscope.wire import layout

_HELPER_KILLED = (
    "the part of soscope that follows its children was killed: "
    "what is executed from there on is not seen"
)
_ANOTHER = "another program"
_LOOK = 0.1  # seconds between checks that the process still runs its program

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

        `before` are the descendants that the process had before the agent was inserted. They are
        not touched. Raises AttachError, with the agent taken out.
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
        """The programs under observation. The first is the one that was running at the attach."""
        followed = self._following.programs if self._following is not None else []
        return [self._first, *followed]

    @property
    def exit(self) -> ExitStatus | None:
        """The exit status of the process, or None. Without `follow` only its parent can know it."""
        return self._following.exit if self._following is not None else None

    @property
    def longest_stop(self) -> int:
        """The longest time that a thread of the process was stopped, in ns."""
        return self._visit.threads.longest

    # ---- parts of the loop ----

    def is_over(self) -> bool:
        """Return whether the process has ended, and with `follow` its children, too."""
        if self._following is None:
            return self._look()
        self._following.poll()
        return self._following.is_over

    @property
    def remarks(self) -> list[str]:
        """Remarks on what soscope could not see of the process."""
        return [f"process {self.pid}: {_HELPER_KILLED}"] if self.lacks_children else []

    @property
    def lacks_children(self) -> bool:
        """Whether the helper was killed, so that the children were not followed to the end."""
        return self._following is not None and self._following.was_killed

    def hear(self) -> bool:
        """Take the events of its processes. Return whether all events have been reported."""
        return self._following is None or self._following.hear()

    def _look(self, *, now: bool = False) -> bool:
        """Return whether the process has ended or runs another program."""
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
            pass  # the parent has waited for the process
        self.has_ended = True
        if self.executed is None and self._following is None:
            self.executed = self._executed_last()
        return True

    def _executed_last(self) -> str | None:
        """Return the path or name of the last program that an ended process executed, or None.

        None means that it ended as the program that it ran at the attach. A program that the
        agent did not see being executed is known by its process name, as long as the parent has
        not waited for the process.
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
        """Record the program about to be executed: it may end before the next look."""
        from soscope.control.command import text_in  # imported late: few processes do so

        self._announced = text_in(self.pid, name) if name else ""

    def attend(self) -> bool:
        """Handle signals and events while the tick waits (see `Visited.attend`)."""
        if self._following is not None:
            self._following.poll()
        return super().attend()

    # ---- the end ----

    def close(self) -> None:
        """Take the agent out and detach from the process. May be called twice."""
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
        """Take the agent out of the program that the process has executed since."""
        self.executed = None
        self.has_ended = False
        try:
            self.taken = _take_out_ours(self.pid)
        except NoSuchProcess:
            self.has_ended = True
        except (Refused, SoscopeError, OSError) as error:
            self.failure = str(error)

    def _take_out_of_others(self) -> None:
        """Take the agent out of children. A child in which that fails is left unchanged."""
        others = set(status.descendants(self.pid))
        if self._following is not None:
            others |= self._following.pids
        for pid in others - {self.pid} - self.beside:
            try:
                _take_out_ours(pid)
            except (Refused, SoscopeError, OSError):
                continue  # a child in which that fails is left unchanged


def _take_out_ours(pid: int) -> Taken:
    """Take out of a process each agent that this soscope, or a soscope that has ended, owns.

    An agent that a child has inherited has no owner once it was taken out of the parent. Raises
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
