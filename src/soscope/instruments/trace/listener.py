# SPDX-License-Identifier: Apache-2.0
"""Listeners: they get the events of a trace while it runs.

The instrument does not print. Its user passes in a listener, and the reports are listeners. (A
*sink* of the recording gets raw chunks; a listener gets calls.)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.model.call import Event
    from soscope.prototypes import Prototypes
    from soscope.recording.names import Programs
    from soscope.select.filter import Selection


class Listener:
    """Takes the events of one trace, in order of time. This base class ignores them.

    The calls come in the order meet, begin, begun, any number of `events` and `caught_up`, end. A
    listener must not disturb the target, so it handles errors of its output itself.
    `takes_stretches` means that events may be Stretches. Without `wants_durations`, calls that do
    not wait may seem to take no time. `shown` counts the calls that it has let through, and is
    None if it lets all through. With `wants_callers` it gets, before a chosen call, all calls
    around it whose own end still decides.
    """

    takes_stretches = False
    wants_durations = True
    wants_callers = False
    shown: int | None = None

    def meet(self, programs: Programs) -> None:
        """Take the programs, which have the images. Called before `begin`."""

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Get ready for the calls that the filter `selection` chooses."""

    def begun(self) -> None:
        """Take note that the command runs, or that all processes are hooked."""

    def events(self, batch: list[Event]) -> None:
        """Take a batch of events."""

    def caught_up(self, time_ns: int) -> None:
        """Take note that all events up to a time have been passed on."""

    def end(self, outcome: TraceOutcome) -> None:
        """Finish. No event will follow."""


class Destination:
    """The place where a listener writes to, as seen by the trace. This base class is none."""

    __slots__ = ()
    spent_ns = 0  # time spent on writing and on waiting for the reader

    @property
    def file(self) -> tuple[int, int] | None:
        """Return device and inode of a regular file, None for other outputs."""
        return None

    def begin(self) -> None:
        """Discard the output of an earlier trace, as this one has begun."""

    def attend(self, meanwhile: Callable[[], bool]) -> None:
        """Call `meanwhile` often while the reader is slow. If it returns False, stop writing."""
        del meanwhile


# Notes about what the stacks of a trace lack.

_NO_STACKS = "the recording has no stacks: soscope trace -k --record FILE ... keeps them"


def stack_remarks(totals: object) -> list[str]:
    """Return a line for each loss of stacks in `totals`, the totals of a trace."""
    said = totals.get("stacks") if isinstance(totals, dict) else None
    if not isinstance(said, dict):
        return []
    lost, notes = said.get("lost"), said.get("notes")
    lines = [str(note) for note in notes] if isinstance(notes, list) else []
    if isinstance(lost, int) and lost:
        lines.append(f"{lost:,} calls have no stack: there was no room for more")
    return lines


def recorded_remarks(options: dict[str, object], depth: int) -> list[str]:
    """Return a note if a recording made with `options` has fewer frames than `depth`."""
    kept = options.get("stacks")
    if not depth:
        return []
    if not isinstance(kept, int) or not kept:
        return [_NO_STACKS]
    return [f"stacks were recorded with --stack-depth {kept}"] if kept < depth else []
