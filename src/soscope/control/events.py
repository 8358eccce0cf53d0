# SPDX-License-Identifier: Apache-2.0
"""What happens to the processes under observation, told to whoever wants to know."""

from __future__ import annotations

from soscope.control.program import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket


class SessionEvents:
    """Does nothing with every event; override what is of interest.

    Called from `launch` and `Target.run`, between a target's stop and its going on: be quick.
    All times are CLOCK_REALTIME ns. `asker` leads to a process of soscope's own that has traced
    threads stopped for a moment, None: nobody asks (see `stops`).
    """

    asker: _socket.socket | None = None

    def on_inner_pid(self, pid: int, inner: int) -> None:
        """Take note that a process calls itself `inner`, in a pid namespace of its own.

        Comes before its start or fork is told.
        """

    def on_wait(self, pid: int) -> None:
        """Hear that going into a process that runs already takes longer than a second."""

    def on_engine(self, line: str) -> None:
        """Hear which engine sees the calls, and why, where that is not an agent."""

    def on_process(
        self, event: str, pid: int, parent: int | None, program: Program, time_ns: int
    ) -> None:
        """Take note of a process: `event` is "start", "fork" or "exec"."""

    def on_stood(self, what: str, ns: int) -> None:
        """Hear that a thread stood still for us for so long; `what` for is a word of `cost`."""

    def on_signal(self, pid: int, tid: int, signal: int, time_ns: int) -> None:
        """Take note of a signal that is about to be delivered."""

    def on_ending(self, pid: int, program: Program) -> None:
        """Hear that a process is about to end: it stands still, and still has its memory."""

    def on_news(self, pid: int) -> None:
        """Hear that a child is about to be waited for: while it is not, its accounts are there."""

    def on_own_signal(self, number: int) -> bool:
        """Hear of a signal to soscope that does not end it; True: the target must not get it."""
        del number
        return False

    def on_exit(self, pid: int, status: int | None, signal: int | None, time_ns: int) -> None:
        """Take note of the end of a process."""
