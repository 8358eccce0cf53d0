# SPDX-License-Identifier: Apache-2.0
"""Events of the processes under observation, and the methods that receive them."""

from __future__ import annotations

from soscope.control.program import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket


class SessionEvents:
    """A receiver that ignores every event. Override the methods of interest.

    The methods are called from `launch` and `Target.run` while a target is stopped, so they must
    be quick. All times are CLOCK_REALTIME ns. `asker` is the socket of a soscope process that
    asks for brief stops of traced threads, or None if there is no such process (see `stops`).
    """

    asker: _socket.socket | None = None

    def on_inner_pid(self, pid: int, inner: int) -> None:
        """Note that process `pid` has the number `inner` in its own pid namespace.

        This comes before the start or fork of the process is reported.
        """

    def on_wait(self, pid: int) -> None:
        """Note that attaching to a running process takes longer than a second."""

    def on_engine(self, line: str) -> None:
        """Note which engine sees the calls, and why, if it is not the agent."""

    def on_process(
        self, event: str, pid: int, parent: int | None, program: Program, time_ns: int
    ) -> None:
        """Note an event of a process: `event` is "start", "fork" or "exec"."""

    def on_stood(self, what: str, ns: int) -> None:
        """Note that soscope stopped a thread for `ns`. The reason is a constant of `cost`."""

    def on_signal(self, pid: int, tid: int, signal: int, time_ns: int) -> None:
        """Note a signal that is about to be delivered."""

    def on_ending(self, pid: int, program: Program) -> None:
        """Note that a process is about to end: it is stopped and still has its memory."""

    def on_news(self, pid: int) -> None:
        """Note that a child is about to be reaped. Its accounting is in /proc until then."""

    def on_own_signal(self, number: int) -> bool:
        """Handle a signal to soscope that does not end it.

        Return whether to keep the signal from the target.
        """
        del number
        return False

    def on_exit(self, pid: int, status: int | None, signal: int | None, time_ns: int) -> None:
        """Note the end of a process."""
