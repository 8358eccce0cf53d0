# SPDX-License-Identifier: Apache-2.0
"""Who hears of the events of a trace while it runs.

The instrument does not print: whoever starts it hands in a listener, and the reports are
listeners. (A *sink* of the recording takes raw chunks; a listener takes calls.)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # every verb that prints comes by here, and needs none of these
    from collections.abc import Callable

    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.model.call import Event
    from soscope.prototypes import Prototypes
    from soscope.recording.names import Programs
    from soscope.select.filter import Selection


class Listener:
    """Takes the events of one trace, in order of their time. This one forgets them.

    The calls come in the order meet, begin, begun, any number of `events` and `caught_up`, end.
    Nothing that a listener does may disturb the target: errors of its output are its own to keep.
    `takes_stretches`: among the events may be Stretches. `wants_durations`: without it, calls
    that wait for nobody may seem to take no time. `shown` counts the calls of those that it was
    given which it has let through, None: it lets all through. `wants_callers`: before a call that
    is chosen it hears of all calls around it whose own end is still to decide.
    """

    takes_stretches = False
    wants_durations = True
    wants_callers = False
    shown: int | None = None

    def meet(self, programs: Programs) -> None:
        """Hear where the images of all programs are to be found, before `begin`."""

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Get ready for the calls that the filter `selection` chooses."""

    def begun(self) -> None:
        """Hear that the command runs, or that all of the processes are hooked."""

    def events(self, batch: list[Event]) -> None:
        """Take some events that happened."""

    def caught_up(self, time_ns: int) -> None:
        """Hear that all events up to a time have been handed over."""

    def end(self, outcome: TraceOutcome) -> None:
        """Finish: no event will follow."""


class Destination:
    """Where a listener writes to, as far as the trace is concerned. This one is nowhere."""

    __slots__ = ()
    spent_ns = 0  # to write, and to wait for whoever reads

    @property
    def file(self) -> tuple[int, int] | None:
        """Device and inode of a regular file; None for what is none."""
        return None

    def begin(self) -> None:
        """Let what is there of an earlier trace go: this one has begun."""

    def attend(self, meanwhile: Callable[[], bool]) -> None:
        """Call `meanwhile` often while nobody reads; where it says False, give up writing."""
        del meanwhile
