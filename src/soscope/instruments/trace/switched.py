# SPDX-License-Identifier: Apache-2.0
"""Passes on events between calls that switch output on and off, as the agent's gates would.

If a call has been passed on, its end is passed on, too.
"""

from __future__ import annotations

from soscope.instruments.trace.choice import Choice, slot_is_chosen
from soscope.instruments.trace.listener import Listener
from soscope.model.call import Entry, Event, Exit, ProcessStart, Stretch
from soscope.model.image import TracedSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.prototypes import Prototypes
    from soscope.recording.names import Programs
    from soscope.select.filter import Selection

_MOST_SLOTS = 1 << 16
_AGAIN = 1 << 10  # ended calls that may end again, as fork and setjmp do


class SwitchedListener(Listener):
    """Passes on to `listener` the events between `choice.on` and `choice.off`."""

    takes_stretches = False

    def __init__(self, listener: Listener, choice: Choice) -> None:
        self._listener = listener
        self._on, self._off = choice.on, choice.off
        self.wants_durations = listener.wants_durations
        self._at_first = choice.on is None
        self._is_on: dict[int, bool] = {}  # by pid
        self._open: set[Entry] = set()  # open calls that were passed on
        self._ended: dict[Entry, None] = {}
        self._switches: dict[TracedSlot, tuple[bool, bool]] = {}
        self._has_met_on = choice.on is None

    @property
    def shown(self) -> int | None:  # type: ignore[override]  # it is the other one's
        """Return how many calls were shown."""
        return self._listener.shown

    def meet(self, programs: Programs) -> None:
        """Pass the call on to the listener."""
        self._listener.meet(programs)

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Pass the call on to the listener."""
        self._listener.begin(prototypes, selection)

    def begun(self) -> None:
        """Pass the call on to the listener."""
        self._listener.begun()

    def events(self, batch: list[Event]) -> None:
        """Pass on the events of processes that are switched on."""
        out: list[Event] = []
        for event in batch:
            if isinstance(event, Exit):
                if self._leaves(event):
                    out.append(event)
            elif isinstance(event, Entry):
                if self._enters(event):
                    out.append(event)
            elif not isinstance(event, Stretch):
                if isinstance(event, ProcessStart):
                    self._starts(event)
                out.append(event)
        if out:
            self._listener.events(out)

    def caught_up(self, time_ns: int) -> None:
        """Pass the call on to the listener."""
        self._listener.caught_up(time_ns)

    def end(self, outcome: TraceOutcome) -> None:
        """Pass on the end, with a remark if no call has switched output on."""
        if not self._has_met_on:
            outcome.remarks.append("--on: no such call is in it, so nothing is shown")
        self._listener.end(outcome)

    def _starts(self, event: ProcessStart) -> None:
        is_on = self._at_first
        if event.event == "fork" and event.parent is not None:
            is_on = self._is_on.get(event.parent, is_on)
        self._is_on[event.pid] = is_on

    def _enters(self, entry: Entry) -> bool:
        on, off = self._what(entry.slot)
        if on:
            self._has_met_on = self._is_on[entry.pid] = True
        is_on = self._is_on.get(entry.pid, self._at_first)
        if is_on and not entry.entry_only:
            self._open.add(entry)
        if off:
            self._is_on[entry.pid] = False
        return is_on

    def _leaves(self, leave: Exit) -> bool:
        entry = leave.entry
        if entry is None:
            return self._is_on.get(leave.pid, self._at_first)
        if entry in self._open:
            if not leave.is_inherited:
                self._open.discard(entry)
                self._ended[entry] = None
                if len(self._ended) > _AGAIN:
                    del self._ended[next(iter(self._ended))]
            return True
        return entry in self._ended

    def _what(self, slot: TracedSlot) -> tuple[bool, bool]:
        """Return whether calls through a slot switch output on, and off."""
        known = self._switches.get(slot)
        if known is None:
            if len(self._switches) > _MOST_SLOTS:
                self._switches.clear()
            known = self._switches[slot] = (
                self._on is not None and slot_is_chosen(self._on, slot),
                self._off is not None and slot_is_chosen(self._off, slot),
            )
        return known
