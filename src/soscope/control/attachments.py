# SPDX-License-Identifier: Apache-2.0
"""The processes of one trace that ran already: one loop for all of them.

Each has an agent, a control block and, with `-f`, a helper of its own. One that cannot be
traced, or that ends, disturbs none of the others.
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
    """Several processes that the agent was put into; the counterpart of `Target`.

    `targets` are the processes that are or were traced, in the order in which they were asked
    for; `failures` says of others why they are not.
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
        """Put the agent into each of the processes; `between` is called after each of them.

        `by_sites` returns a process that is traced in another way, None: by the agent.

        Raises what `attach` raises where that concerns all of them, or the only one; nobody is
        traced then. `run` has to be called next, from this thread.
        """
        self._signals.block()  # of each process it stays so until all are over
        try:
            for pid in dict.fromkeys(pids):
                try:
                    target = by_sites(pid) or attach(
                        pid, make_block, follow=follow, events=self._events
                    )
                except AgentError:
                    raise  # there will be none in the next process either
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
                    break  # what is there is taken out again
            if not self.targets:
                raise self.failures[0]
        except BaseException:
            self.close()
            self.leave()
            raise

    def note_exec(self, pid: int, name: int) -> None:
        """Take note of the program that a process is about to execute: see `Visited`."""
        for target in self.targets:
            if target.pid == pid:
                target.note_exec(name)

    @property
    def programs(self) -> list[Program]:
        """The programs under observation; the first are those that ran already."""
        return [
            *(target.programs[0] for target in self.targets),
            *(program for target in self.targets for program in target.programs[1:]),
        ]

    @property
    def exit(self) -> ExitStatus | None:
        """How the process ended, where there is one alone and that is known."""
        return self.targets[0].exit if len(self.targets) == 1 else None

    def stop(self) -> None:
        """Let `run` return soon."""
        self.targets[0].stop()

    def run(self, tick: Tick | None = None) -> None:
        """Move data until somebody stops us, or all processes have ended; then take agents out.

        With `follow`, until their children have ended, too. `tick` is called again and again,
        last when nothing is hooked any more.
        """
        first = self.targets[0]  # it takes the signals for all
        try:
            while not first.is_stopped and self._are_there():
                pause = tick() if tick is not None else None
                first.wait(_PAUSE if pause is None else pause)
        finally:
            self.close()
        if tick is not None:
            tick()

    def _are_there(self) -> bool:
        """Return whether any process is left; those that are not are let go of."""
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
        """Hear what has happened to the processes; return whether that is all told."""
        return all(target.hear() for target in self.targets)

    def attend(self) -> bool:
        """Hear signals while the tick waits for somebody who reads its output.

        Return False where it should not wait any longer.
        """
        return not self.targets or self.targets[0].attend()

    @property
    def is_asked_to_end(self) -> bool:
        """Return whether somebody wants soscope to end, so that it waits for no reader any more."""
        return bool(self.targets) and self.targets[0].is_asked_to_end

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has ended the observation. The processes go on."""
        return bool(self.targets) and self.targets[0].is_interrupted

    def close(self) -> None:
        """Take the agents out and let go of all processes. May be called twice.

        What is sent to soscope from here on waits until `leave`.
        """
        with ExitStack() as ends:  # whatever one of them raises, the others are let go of
            ends.callback(self._signals.drop)  # what was sent to end the trace has done so
            for target in reversed(self.targets):
                ends.callback(self._let_go, target)

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, None where there is but one."""
        return None

    @property
    def lacks_children(self) -> bool:
        """Whether children, or what they have executed, could not be seen."""
        return any(target.lacks_children for target in self.targets)

    def remarks(self) -> list[str]:
        """Return what was not seen of processes."""
        return [remark for target in self.targets for remark in target.remarks]

    @property
    def is_left(self) -> bool:
        """Say no: that they go on is what was wanted."""
        return False

    def leave(self) -> None:
        """Put soscope's own signals back, when all is written down. May be called twice.

        What has been sent to soscope since `close` does now what it does to any program.
        """
        self._signals.restore()
