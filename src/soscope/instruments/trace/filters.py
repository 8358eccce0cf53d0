# SPDX-License-Identifier: Apache-2.0
"""Listeners that pass on only some events: chosen calls, and calls between switches."""

from __future__ import annotations

from soscope.instruments.trace.choice import Choice, slot_is_chosen
from soscope.instruments.trace.listener import Listener
from soscope.model.call import (
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Signal,
    Stretch,
    WholeCall,
)
from soscope.model.image import TracedSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.choice import CallViews
    from soscope.instruments.trace.descriptors import Descriptors
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.prototypes import Prototypes
    from soscope.recording.names import Programs
    from soscope.select.filter import Selection


class PassingListener(Listener):
    """Passes everything on to `listener`."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.wants_durations = listener.wants_durations

    def meet(self, programs: Programs) -> None:
        """Pass the call on to the listener."""
        self._listener.meet(programs)

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Pass the call on to the listener."""
        self._listener.begin(prototypes, selection)

    def begun(self) -> None:
        """Pass the call on to the listener."""
        self._listener.begun()

    def caught_up(self, time_ns: int) -> None:
        """Pass the call on to the listener."""
        self._listener.caught_up(time_ns)

    def end(self, outcome: TraceOutcome) -> None:
        """Pass the call on to the listener."""
        self._listener.end(outcome)


# Passes on the events of chosen calls: the filter in front of a report.
#
# If the end of a call decides, the call is passed on as a whole when it has ended, behind the calls
# that it made itself. Other calls do not wait for it. One entry for each open call is kept.

_FOREVER = 1 << 63
_MOST_KEPT = 1 << 14
_LONG = 256  # bytes of captured data up to which a result is remembered
_DIFFERS = {"duration", "pid", "tid"}  # properties in which calls that look the same can differ


class ChosenListener(PassingListener):
    """Passes on to `listener` what `choice` chooses. `shown` counts calls."""

    def __init__(self, listener: Listener, choice: Choice) -> None:
        super().__init__(listener)
        self._wants_callers = listener.wants_callers
        self._choice = choice
        self.takes_stretches = listener.takes_stretches and not choice.needs_entries
        self._where = choice.where
        self.wants_durations |= choice.slower_ns is not None or (
            choice.where is not None and "duration" in choice.where.names
        )
        self.shown: int = 0
        self._since, self._until = 0, _FOREVER
        self._has_begun = False
        self._held: dict[Entry, None] = {}  # open calls whose end decides, in order
        self._early: set[Entry] = set()  # calls that were chosen before they ended
        self._latest = 0
        self._views: CallViews | None = None  # set if arguments are needed
        # Decisions for calls that look the same, if these decide by arguments and results only.
        self._inside: dict[tuple[TracedSlot, int, int, bytes, int | None, bytes], bool] = {}
        self._keeps_inside = choice.where is None or not choice.where.names & _DIFFERS

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Pass the call on to the listener."""
        if self._choice.looks_inside:
            from soscope.instruments.trace.choice import CallViews

            self._views = CallViews(prototypes)
        self._listener.begin(prototypes, selection)

    def events(self, batch: list[Event]) -> None:
        """Pass on the chosen events."""
        if not batch:
            return
        if not self._has_begun:
            self._begin(batch)
        out: list[Event] = []
        for event in batch:
            if isinstance(event, Exit):
                self._exit(event, out)
            elif isinstance(event, Entry):
                self._entry(event, out)
            elif isinstance(event, Stretch):
                self._stretch(event, out)
            elif isinstance(event, Dropped) or self._takes_other(event):
                out.append(event)
        last = batch[-1]
        if isinstance(last, Stretch):
            origin, _, realtime, rate, _ = last.piece
            start, ticks, *_ = last.calls[-1]
            self._latest = realtime + int((start + ticks - origin) * rate // 1)
        elif not isinstance(last, Dropped):
            self._latest = last.time_ns
        if out:
            self._listener.events(out)

    def caught_up(self, time_ns: int) -> None:
        """Pass on open calls that have taken long enough by now."""
        if time_ns:
            self._latest = time_ns
            self._look_at_held(time_ns)
        self._listener.caught_up(time_ns)

    def end(self, outcome: TraceOutcome) -> None:
        """Pass on the open calls that are chosen, and the end."""
        self._look_at_held(max(self._latest, self._choice.earliest_ns))
        if self._views is not None and self._where is not None:
            outcome.remarks += self._views.unknown(self._where)
        self._listener.end(outcome)

    def _begin(self, batch: list[Event]) -> None:
        """Find the time at which the trace begins."""
        first = batch[0]
        if isinstance(first, Dropped):
            return
        if isinstance(first, Stretch):
            origin, _, realtime, rate, _ = first.piece
            start = realtime + int((first.calls[0][0] - origin) * rate // 1)
        else:
            start = first.time_ns
        self._has_begun = True
        choice = self._choice
        if choice.since is not None:
            self._since = choice.since.time_ns(start)
        if choice.until is not None:
            self._until = choice.until.time_ns(start)

    def _entry(self, entry: Entry, out: list[Event]) -> None:
        if not self._choice.takes_thread(entry.pid, entry.tid):
            return
        chosen = self._begins(entry)
        if chosen is None and not entry.entry_only:
            self._held[entry] = None
        elif chosen:
            self._add_callers(entry, out)
            self.shown += 1
            out.append(entry)

    def _add_callers(self, of: Entry | Stretch, out: list[Event]) -> None:
        """Choose the calls around a chosen one, for listeners that show where a call is nested."""
        if not self._wants_callers:
            return
        thread = of.pid, of.tid
        for call in [call for call in self._held if (call.pid, call.tid) == thread]:
            if call.depth < of.depth:
                del self._held[call]
                self._early.add(call)
                self.shown += 1
                out.append(call)

    def _exit(self, leave: Exit, out: list[Event]) -> None:
        entry = leave.entry
        if entry is None:
            return  # an exit whose call is not known
        if not leave.is_inherited:
            if entry in self._held:
                del self._held[entry]
                if self._ended(entry, leave):
                    self._add_callers(entry, out)
                    self.shown += 1
                    out += (entry, leave)
                return
            if entry in self._early:
                self._early.discard(entry)
                out.append(leave)
                return
        # A forked child that returns from its parent's call is the one that acts.
        whose = leave if leave.is_inherited else entry
        if not self._choice.takes_thread(whose.pid, whose.tid):
            return
        chosen = self._begins(entry)
        if chosen or (chosen is None and self._ended(entry, leave)):
            out.append(leave)

    def _begins(self, entry: Entry) -> bool | None:
        """Return whether a call is chosen, None if its end decides."""
        chosen = self._choice.begins(entry, self._since, self._until)
        views = self._views
        if chosen is False or views is None:
            return chosen
        if self._choice.paths and not self._names_path(views, entry):
            return False
        if self._where is None:
            return chosen
        holds = self._where.holds(views.view(entry))
        return chosen if holds else holds

    def _names_path(self, views: CallViews, entry: Entry) -> bool:
        """Return whether a call is about one of the chosen files."""
        paths, descriptors = self._choice.paths, self._choice.descriptors
        return views.names_path(entry, paths) or (
            descriptors is not None and descriptors.are_of(entry, paths)
        )

    def _ended(self, entry: Entry, leave: Exit) -> bool:
        """Return whether an ended call is chosen."""
        if not self._choice.ended(entry, leave):
            return False
        where, views = self._where, self._views
        return where is None or views is None or where.holds(views.view(entry, leave)) is True

    def _begins_so(self, entry: Entry) -> bool:
        """Return whether the condition on a call holds, no matter how the call ends."""
        where, views = self._where, self._views
        return where is None or views is None or where.holds(views.view(entry)) is True

    def _look_at_held(self, time_ns: int) -> None:
        """Pass on the open calls that are chosen, no matter how they end."""
        ready: list[Entry] = []
        slower = self._choice.slower_ns
        for entry in self._held:
            if slower is not None and time_ns - entry.time_ns < slower:
                break
            if self._choice.waits(entry, time_ns) and self._begins_so(entry):
                ready.append(entry)
        out: list[Event] = []
        for entry in ready:
            if entry in self._held:  # else passed on as a caller of another call
                del self._held[entry]
                self._add_callers(entry, out)
                self._early.add(entry)
                self.shown += 1
                out.append(entry)
        if out:
            self._listener.events(out)

    def _stretch(self, stretch: Stretch, out: list[Event]) -> None:
        choice = self._choice
        if not choice.takes_thread(stretch.pid, stretch.tid):
            return
        origin, _, realtime, rate, even = stretch.piece
        since, until = self._since, self._until
        is_timed = choice.since is not None or choice.until is not None
        earliest = choice.earliest_ns
        calls: list[WholeCall] = []
        for call in stretch.calls:
            start, ticks, slot, _, result, *_ = call
            if not choice.takes_slot(slot):
                continue
            if is_timed and not since <= realtime + int((start - origin) * rate // 1) <= until:
                continue
            if earliest and realtime + int((start + ticks - origin) * rate // 1) < earliest:
                continue
            spent = int(ticks * even // 1)
            if choice.takes_whole(slot, spent, result) and self._takes_inside(stretch, call, spent):
                calls.append(call)
        if calls:
            self._add_callers(stretch, out)
            self.shown += len(calls)
            out.append(
                stretch
                if len(calls) == len(stretch.calls)
                else Stretch(stretch.pid, stretch.tid, stretch.piece, calls, stretch.depth)
            )

    def _takes_inside(self, stretch: Stretch, call: WholeCall, spent: int) -> bool:
        """Return whether a call is chosen by its arguments and result."""
        views = self._views
        if views is None:
            return True
        key = call[2:]
        _, _, _, data, _, back = key
        taken = self._inside.get(key)
        if taken is None:
            entry, leave = views.whole(stretch, call, spent)
            taken = not self._choice.paths or views.names_path(entry, self._choice.paths)
            if taken and self._where is not None:
                taken = self._where.holds(views.view(entry, leave)) is True
            if self._keeps_inside and len(data) + len(back) <= _LONG:
                if len(self._inside) > _MOST_KEPT:
                    self._inside.clear()
                self._inside[key] = taken
        return taken

    def _takes_other(self, event: Signal | ProcessStart | ProcessExit) -> bool:
        choice = self._choice
        if not max(self._since, choice.earliest_ns) <= event.time_ns <= self._until:
            return False
        if isinstance(event, Signal):
            return choice.signals and choice.takes_thread(event.pid, event.tid)
        return not choice.pids or event.pid in choice.pids


def choose(listener: Listener, choice: Choice | None) -> Listener:
    """Return a listener that passes to `listener` what `choice` chooses (everything if None)."""
    if choice is None:
        return listener
    if not choice.takes_all:
        listener = ChosenListener(listener, choice)
    if choice.switches:
        listener = SwitchedListener(listener, choice)
    if choice.descriptors is None:
        return listener

    return ObservedListener(listener, choice.descriptors)


# Shows all events to the tracker of descriptors, before a filter removes some.


class ObservedListener(PassingListener):
    """Passes everything on to `listener` after `descriptors` has processed it."""

    takes_stretches = False

    def __init__(self, listener: Listener, descriptors: Descriptors) -> None:
        super().__init__(listener)
        self._descriptors = descriptors

    def meet(self, programs: Programs) -> None:
        """Pass the call on to the listener."""
        self._descriptors.meet(programs)
        self._listener.meet(programs)

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Pass the call on to the listener."""
        self._descriptors.begin(prototypes)
        self._listener.begin(prototypes, selection)

    def events(self, batch: list[Event]) -> None:
        """Pass on events."""
        self._descriptors.observe(batch)
        self._listener.events(batch)

    def end(self, outcome: TraceOutcome) -> None:
        """Pass on the end, with remarks about how reliable the names of descriptors are."""
        outcome.remarks += self._descriptors.remarks()
        self._listener.end(outcome)
        self.shown = self._listener.shown


# Passes on events between calls that switch output on and off, as the agent's gates would.
#
# If a call has been passed on, its end is passed on, too.

_MOST_SLOTS = 1 << 16
_AGAIN = 1 << 10  # ended calls that may end again, as fork and setjmp do


class SwitchedListener(PassingListener):
    """Passes on to `listener` the events between `choice.on` and `choice.off`."""

    takes_stretches = False

    def __init__(self, listener: Listener, choice: Choice) -> None:
        super().__init__(listener)
        self._on, self._off = choice.on, choice.off
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
