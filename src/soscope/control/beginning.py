# SPDX-License-Identifier: Apache-2.0
"""Choose how a session gets to its programs: agent, breakpoints, emulator or stub."""

from __future__ import annotations

import os

from soscope.control.blocks import Blocks
from soscope.control.command import Command
from soscope.control.events import SessionEvents
from soscope.control.instrument import Instrument
from soscope.control.launch import launch
from soscope.control.settings import POISON, SLOT, SessionSettings
from soscope.control.supervise import Target
from soscope.errors import UsageError
from soscope.proc.status import FOREIGN
from soscope.recording.feed import Feed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from soscope.control.attachments import Attachments
    from soscope.control.remote.held.target import HeldTarget
    from soscope.control.visited import Visited


class Beginning(SessionEvents):
    """The first half of a session: launch the command or attach to running processes."""

    settings: SessionSettings
    feed: Feed
    _blocks: Blocks
    _instruments: Sequence[Instrument]
    _target: Target | Attachments | HeldTarget | None
    _attached: Attachments | None

    def _begin(self) -> Target | Attachments | HeldTarget:
        settings = self.settings
        if settings.pids:
            from soscope.control.attachments import Attachments

            self._target = self._attached = attached = Attachments(self)
            self._blocks.await_exec = attached.note_exec
            attached.attach(
                settings.pids,
                self._blocks.make,
                follow=settings.follow,
                between=self.feed.drain,
                by_sites=self._by_sites,
            )
            return attached
        if settings.remote is not None:
            return self._begin_held()
        if settings.goes_by_breakpoints and not settings.wants_emulator:
            return self._begin_by_sites()
        if settings.wants_no_agent:
            return self._begin_foreign()
        self._target = target = launch(
            settings.command,
            self._blocks.make,
            cwd=settings.cwd,
            environ=settings.environ,
            user=settings.user,
            follow=settings.follow,
            stay=any(instrument.wants_signals for instrument in self._instruments),
            threads=any(instrument.wants_threads for instrument in self._instruments),
            ends=any(instrument.wants_ends for instrument in self._instruments),
            events=self,
            agentless=self._begin_agentless,
        )
        self._blocks.await_exec = target.await_exec
        return target

    def _by_sites(self, pid: int) -> Visited | None:
        """Trace a process by breakpoints if they are requested or its machine has no agent.

        If its machine has no agent and breakpoints do not suffice, return None. The agent's own
        attachment then fails with the reason.
        """
        from soscope.control.native.agentless import agentless

        engine = self.settings.engine
        if engine in (POISON, SLOT):
            raise UsageError(f"--engine {engine}: not with -p: who runs already must outlive us")
        if not self.settings.follow:
            from soscope.control.watched import watch

            watched = watch(pid, self._instruments, self)
            if watched is not None:
                return watched
        machine = agentless(pid)
        if not self.settings.goes_by_breakpoints and not machine:
            return None
        from soscope.control.native.target import attach_by_sites, engine_line, needs_agent

        if not self.settings.goes_by_breakpoints and needs_agent(self.settings, self._instruments):
            return None
        target = attach_by_sites(pid, self._blocks.make, self.settings, self._instruments, self)
        self.on_engine(f"process {pid}: {engine_line(self.settings, machine)}")
        return target

    def _begin_by_sites(self) -> Target:
        """Start the command, of any machine, with breakpoints that see its calls."""
        settings = self.settings
        command = Command(settings.command, settings.cwd, settings.environ, settings.user)
        target = None if command.reason != FOREIGN else self._begin_agentless(command)
        return target or self._begin_native(command)

    def _begin_agentless(self, command: Command) -> Target | None:
        """Start a command of a machine without an agent. Return None if no engine can trace it."""
        from soscope.control.remote.program import is_foreign

        if is_foreign(os.fsdecode(command.files[0]), self.settings.cwd):
            return self._begin_foreign()
        from soscope.control.native.start import is_understood
        from soscope.control.native.target import needs_agent

        if not is_understood(command) or needs_agent(self.settings, self._instruments):
            return None
        return self._begin_native(command)

    def _begin_native(self, command: Command) -> Target:
        """Start a command of this machine with the breakpoint engine."""
        from soscope.control.native.start import start_by_sites

        self._target = target = start_by_sites(
            command, self.settings, self._instruments, self._blocks.make, self
        )
        return target

    def _begin_foreign(self) -> Target:
        """Start the command, a program of another architecture, under an emulator."""
        from soscope.control.qemu.start import start_foreign

        self._target = target = start_foreign(
            self.settings, self._instruments, self._blocks.make, self, self.feed.drain
        )
        return target

    def _begin_held(self) -> HeldTarget:
        """Connect to the program that a GDB stub holds."""
        from soscope.control.gdbserver.start import trace_held

        self._target = target = trace_held(
            self.settings, self._instruments, self._blocks.make, self, self.feed.drain
        )
        return target
