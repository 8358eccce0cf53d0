# SPDX-License-Identifier: Apache-2.0
"""Several running processes in one trace, with one loop for all of them.

Each process has its own agent, its own control block and, with `-f`, its own helper. A process
that cannot be traced, or that ends, does not disturb the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from soscope.control.attach import attach
from soscope.control.events import SessionEvents
from soscope.control.exitstatus import ExitStatus
from soscope.control.follow import MakeBlock
from soscope.control.outcome import EngineVerdict
from soscope.control.program import Program
from soscope.control.signals import Signals, end_is_wanted
from soscope.control.visited import Visited
from soscope.errors import AgentError, SoscopeError

_PAUSE = 0.05

Tick = Callable[[], float | None]


class Attachments:
    """Several processes that the agent was put into: the counterpart of `Target`.

    `targets` are the processes that are or were traced, in the order in which the user listed
    them. `failures` has the errors of the other processes.
    """

    def __init__(self, events: SessionEvents) -> None:
        self.targets: list[Visited] = []
        self.failures: list[SoscopeError] = []
        self._events = events
        self._signals = Signals()

    def attach(
        self,
        pids: Sequence[int],
        make_block: MakeBlock,
        *,
        follow: bool = False,
        between: Callable[[], object] = lambda: None,
        by_sites: Callable[[int], Visited | None] = lambda _: None,
    ) -> None:
        """Put the agent into each of the processes, and call `between` after each of them.

        `by_sites` returns a process that is traced without an agent, or None if the agent traces
        it. The caller must call `run` next, in this thread.

        Raises what `attach` raises if that concerns all processes, or the only one. No process is
        traced then.
        """
        self._signals.block()  # the signals stay blocked until all processes are over
        try:
            for pid in dict.fromkeys(pids):
                try:
                    target = by_sites(pid) or attach(
                        pid, make_block, follow=follow, events=self._events
                    )
                except AgentError:
                    raise  # the next process would have no agent either
                except SoscopeError as error:
                    self.failures.append(error)
                    if end_is_wanted():
                        break
                    continue
                for other in self.targets:
                    other.beside.add(pid)
                    target.beside.add(other.pid)
                self.targets.append(target)
                between()
                if end_is_wanted():
                    break  # the agents inserted so far are taken out again
            if not self.targets:
                raise self.failures[0]
        except BaseException:
            self.close()
            self.leave()
            raise

    def note_exec(self, pid: int, name: int) -> None:
        """Record the program that a process is about to execute (see `Visited`)."""
        for target in self.targets:
            if target.pid == pid:
                target.note_exec(name)

    @property
    def programs(self) -> list[Program]:
        """The programs under observation. The first ones were running at the time of the attach."""
        return [
            *(target.programs[0] for target in self.targets),
            *(program for target in self.targets for program in target.programs[1:]),
        ]

    @property
    def exit(self) -> ExitStatus | None:
        """The exit status, if there is a single process and its status is known, else None."""
        return self.targets[0].exit if len(self.targets) == 1 else None

    def stop(self) -> None:
        """Make `run` return soon."""
        self.targets[0].stop()

    def run(self, tick: Tick | None = None) -> None:
        """Move data until `stop` is called or all processes have ended, then take the agents out.

        With `follow`, the loop also waits for the children to end. `tick` is called repeatedly,
        for the last time when nothing is hooked any more.
        """
        first = self.targets[0]  # the first one takes soscope's signals for all
        try:
            while not first.is_stopped and self._are_there():
                pause = tick() if tick is not None else None
                first.wait(_PAUSE if pause is None else pause)
        finally:
            self.close()
        if tick is not None:
            tick()

    def _are_there(self) -> bool:
        """Return whether any process is left, and detach from those that have ended."""
        left = False
        for target in self.targets:
            if target.is_over():
                self._let_go(target)
            else:
                left = True
        return left

    def _let_go(self, target: Visited) -> None:
        if target.is_closed:
            return
        target.close()
        if target.has_ended and target.exit is None:
            self._events.on_exit(target.pid, None, None, time.time_ns())

    def hear(self) -> bool:
        """Take the events of the processes. Return whether all events have been reported."""
        return all(target.hear() for target in self.targets)

    def attend(self) -> bool:
        """Handle signals while the tick waits for a reader of its output.

        Return False if the tick should not wait any longer.
        """
        return not self.targets or self.targets[0].attend()

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether a signal asks soscope to end, so that it waits for no reader any more."""
        return bool(self.targets) and self.targets[0].is_asked_to_end

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. The processes go on."""
        return bool(self.targets) and self.targets[0].is_interrupted

    def close(self) -> None:
        """Take the agents out and detach from all processes. May be called twice.

        Signals that are sent to soscope from here on stay pending until `leave`.
        """
        with ExitStack() as ends:  # if one raises an error, the others are still detached
            ends.callback(self._signals.drop)  # signals that ended the trace are handled
            for target in reversed(self.targets):
                ends.callback(self._let_go, target)

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, or None if there is only one."""
        return None

    @property
    def lacks_children(self) -> bool:
        """Whether children, or programs that they have executed, could not be observed."""
        return any(target.lacks_children for target in self.targets)

    def remarks(self) -> list[str]:
        """Return remarks on what soscope could not see of the processes."""
        return [remark for target in self.targets for remark in target.remarks]

    @property
    def is_left(self) -> bool:
        """Return False: attached processes are meant to go on unobserved."""
        return False

    def leave(self) -> None:
        """Restore soscope's own signal handling when all output is written. May be called twice.

        Signals that were sent to soscope since `close` are delivered now and have their usual
        effect.
        """
        self._signals.restore()
