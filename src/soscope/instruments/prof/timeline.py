# SPDX-License-Identifier: Apache-2.0
"""Turn logged calls into slices of their threads' time, each inside its caller's slice.

Viewers of traces can show nothing else. Coroutines take turns on one thread, and a call that was
left is assumed to have lasted until the last report. Then a call may end with the call around it,
and is counted in `overlapping`.
"""

from __future__ import annotations

from soscope.model.record import Record
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.instruments.prof.log import Booleans, Flags, Integers

BEGIN, END, INSTANT = 1, 2, 3

Step = tuple[int, int, int]  # BEGIN, END or INSTANT; ns of CLOCK_REALTIME; index of the call


class ThreadTimeline(Record):
    """The calls of a thread. `thread` is an index into `Profile.threads`.

    `start` and `end` are ns of CLOCK_REALTIME, and `functions` are indices into
    `Profile.functions`. The calls are in the order in which they began. `flags` are REPORTED_
    flags of `layout`.
    """

    thread: int
    start: Integers
    end: Integers
    functions: Integers
    flags: Flags
    is_open: Booleans
    overlapping: int = 0

    def returns(self, call: int) -> bool:
        """Return whether the return of a call was seen."""
        lost = layout.REPORTED_LEFT | layout.REPORTED_UNSEEN
        return not (self.is_open[call] or self.flags[call] & lost)

    def steps(self) -> Iterator[Step]:
        """Yield the begins and ends of calls, in order."""
        self.overlapping = 0
        start, end = self.start.tolist(), self.end.tolist()
        unseen = (self.flags & layout.REPORTED_UNSEEN).tolist()
        around: list[tuple[int, int]] = []  # open calls, with their ends
        latest = 0
        for call, begins in enumerate(start):
            while around and around[-1][1] <= begins:
                inner, ends = around[-1]
                if ends == begins and not self.returns(inner):
                    break  # a call that never returned ends with the last report: this call
                around.pop()
                latest = ends
                yield END, latest, inner
            # Each conversion of ticks into time has an error of its own.
            latest = max(latest, begins)
            if unseen[call]:
                yield INSTANT, latest, call
                continue
            ends = max(latest, end[call])
            if around and ends > around[-1][1]:
                ends = around[-1][1]
                self.overlapping += 1
            yield BEGIN, latest, call
            around.append((call, ends))
        while around:
            inner, latest = around.pop()
            yield END, latest, inner


def notes_of(timelines: list[ThreadTimeline]) -> list[str]:
    """Return notes about inexact slices. Call it after all steps have been taken."""
    notes = []
    overlapping = sum(each.overlapping for each in timelines)
    if overlapping:
        notes.append(
            f"{overlapping:,} calls overlap others of their thread, as coroutines do: "
            "they are shown to end with the calls around them"
        )
    still = sum(int(each.is_open.sum()) for each in timelines)
    if still:
        notes.append(f"{still:,} calls had not ended: they are shown to last to the last event")
    unseen = sum(int((each.flags & layout.REPORTED_UNSEEN != 0).sum()) for each in timelines)
    if unseen:
        notes.append(f"{unseen:,} calls are shown as moments: their ends could not be seen")
    return notes
