# SPDX-License-Identifier: Apache-2.0
"""Choose the calls of a trace that are shown, and the data needed for that."""

from __future__ import annotations

from os.path import normpath
from time import localtime, mktime

from soscope.instruments.trace.outcome import chosen, for_filters
from soscope.model.call import ENDED_RETURN, NOTHING, Entry, Exit, Stretch, WholeCall
from soscope.model.image import TracedSlot, is_error
from soscope.model.record import Record, fresh
from soscope.prototypes import catalog
from soscope.recording.units import captured
from soscope.select.filter import Selection, rules_matched
from soscope.select.where import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from soscope.instruments.trace.descriptors import Descriptors
    from soscope.prototypes import Prototypes
    from soscope.prototypes.formats import Argument
    from soscope.select.where import Condition, Value


# The choice of the calls of a trace that are shown, in a live trace or a recording.
#
# A call is chosen unless a condition excludes it. What can be decided depends on the moment: at the
# entry of a call, neither its result nor its duration is known.

_MOST_SLOTS = 1 << 16  # slots are new objects when images come, so old ones are forgotten

# Choices by how a call ended.
ANY = 0
SUCCESSES = 1  # the call returned, and did not fail
FAILURES = 2

# Names in conditions for properties that a call has at its end.
OF_END = ("ret", "errno", "duration", "failed", "ended")


class Choice(Record, kw_only=True):
    """The calls that are shown. Conditions that are None, empty or ANY exclude nothing.

    `selection` is a filter by symbol and image. `pids` and `tids` are ids of processes and
    threads. `since` and `until` are moments between which calls began. `depth` is a number of
    levels of recorded calls, of which the outermost is 1. `slower_ns` is a minimal duration; an
    open call has taken as long as it has been waited for. `ends` is ANY, SUCCESSES or FAILURES.
    `where` is a condition on single calls, and `paths` are files that calls are about. `on` and
    `off` are filters: calls of a process are shown from a call that `on` chooses to a call that
    `off` chooses, including both. `last_ns` chooses calls that ended at most so long before the
    trace's end, or not at all; a reader of a recording sets `earliest_ns` to that moment.
    `signals` means that signals are shown, too. `descriptors` knows the files of descriptors,
    None if they are not needed.
    """

    selection: Selection | None = None
    pids: list[int] | None = None
    tids: list[int] | None = None
    since: Moment | None = None
    until: Moment | None = None
    depth: int | None = None
    slower_ns: int | None = None
    ends: int = ANY
    where: Condition | None = None
    paths: Sequence[str] = ()
    signals: bool = True
    on: Selection | None = None
    off: Selection | None = None
    last_ns: int | None = None
    earliest_ns: int = 0
    descriptors: Descriptors | None = None
    _slots: dict[TracedSlot, bool] = fresh(dict)

    @property
    def by_slot_alone(self) -> bool:
        """Return whether the choice of a call depends only on its slot."""
        return not (
            self.pids
            or self.tids
            or self.since
            or self.until
            or self.depth is not None
            or self.switches
            or self.last_ns is not None
            or self.needs_end
            or self.looks_inside
        )

    @property
    def takes_all(self) -> bool:
        """Return whether every call is chosen, and every signal."""
        return self.selection is None and self.by_slot_alone and self.signals

    @property
    def needs_end(self) -> bool:
        """Return whether the choice depends on how a call ended, or how long it took."""
        return self.slower_ns is not None or self.ends != ANY

    @property
    def asks_of_end(self) -> bool:
        """Return whether the choice or its condition needs more than the entries of calls."""
        return self.needs_end or (
            self.where is not None and not self.where.names.isdisjoint(OF_END)
        )

    @property
    def switches(self) -> bool:
        """Return whether calls switch the output on and off."""
        return self.on is not None or self.off is not None

    @property
    def looks_inside(self) -> bool:
        """Return whether the choice depends on arguments or results."""
        return self.where is not None or bool(self.paths)

    @property
    def needs_entries(self) -> bool:
        """Return whether the choice depends on something that a Stretch lacks."""
        return self.depth is not None or (self.where is not None and "depth" in self.where.names)

    def takes_slot(self, slot: TracedSlot) -> bool:
        """Return whether calls through a slot can be chosen, as far as the slot decides."""
        if self.selection is None:
            return True
        chosen = self._slots.get(slot)
        if chosen is None:
            if len(self._slots) > _MOST_SLOTS:
                self._slots.clear()
            chosen = self._slots[slot] = slot_is_chosen(self.selection, slot)
        return chosen

    def takes_thread(self, pid: int, tid: int) -> bool:
        """Return whether events of a thread are chosen."""
        return (not self.pids or pid in self.pids) and (not self.tids or tid in self.tids)

    def begins(self, entry: Entry, since: int, until: int) -> bool | None:
        """Return whether a call that begins is chosen, in any thread.

        If only its end can decide that, return None. `since` and `until` are in ns.
        """
        if (
            not since <= entry.time_ns <= until
            or not self.takes_slot(entry.slot)
            or (self.depth is not None and entry.depth >= self.depth)
        ):
            return False
        return True if not self.needs_end and entry.time_ns >= self.earliest_ns else None

    def waits(self, entry: Entry, time_ns: int) -> bool | None:
        """Return whether an open call is chosen at `time_ns`, or None if its end decides."""
        if self.slower_ns is not None and time_ns - entry.time_ns < self.slower_ns:
            return None
        if time_ns < self.earliest_ns:
            return None
        return True if self.ends == ANY else None

    def ended(self, entry: Entry, leave: Exit) -> bool:
        """Return whether a call is chosen for which `begins` has returned None."""
        if leave.time_ns < self.earliest_ns:
            return False
        if self.slower_ns is not None:
            spent = leave.duration_ns
            if spent is None:
                spent = leave.time_ns - entry.time_ns
            if spent < self.slower_ns:
                return False
        return self._ends_so(entry.slot, leave.ended, leave.result)

    def takes_whole(self, slot: TracedSlot, spent_ns: int, result: int) -> bool:
        """Return whether a call that has returned is chosen, by duration and result."""
        if self.slower_ns is not None and spent_ns < self.slower_ns:
            return False
        return self._ends_so(slot, ENDED_RETURN, result)

    def _ends_so(self, slot: TracedSlot, ended: str, result: int | None) -> bool:
        if self.ends == ANY:
            return True
        if ended != ENDED_RETURN or result is None:
            return False
        failed = is_error(slot.error_rule, result)
        return failed == (self.ends == FAILURES)


def slot_is_chosen(selection: Selection, slot: TracedSlot) -> bool:
    """Return whether a filter chooses a slot, with the same result as in the agent."""
    return chosen(selection, slot.symbol, slot.caller, slot.callee)


def rules_about(selection: Selection, slot: TracedSlot) -> list[bool]:
    """Return for each rule of a filter whether it matches a slot."""
    return rules_matched(selection, slot.symbol, for_filters(slot.caller), for_filters(slot.callee))


# Looks up properties of single calls by name: arguments, result, and others.

_ALL = 1 << 30  # bytes; values are never shortened here
_OF_ENTRY: dict[str, Callable[[Entry], float | str]] = {
    "symbol": lambda entry: entry.slot.symbol,
    "caller": lambda entry: entry.slot.caller.name if entry.slot.caller else "",
    "callee": lambda entry: entry.slot.callee.name if entry.slot.callee else "",
    "pid": lambda entry: entry.pid,
    "tid": lambda entry: entry.tid,
    "depth": lambda entry: entry.depth,
}
RESERVED = (*_OF_ENTRY, *OF_END)


class CallViews:
    """Makes views of calls. `prototypes` has the names of their arguments."""

    def __init__(self, prototypes: Prototypes) -> None:
        self.prototypes = prototypes
        self._names: dict[str, dict[str, int]] = {}
        self._tails: dict[str, list[list[str]]] = {}
        self._known: set[str] = set(RESERVED)  # names that some call has had

    def view(self, entry: Entry, leave: Exit | None = None) -> CallView:
        """Return a view of a call at its entry, or at its end."""
        return CallView(self, entry, leave)

    def whole(self, stretch: Stretch, call: WholeCall, spent_ns: int) -> tuple[Entry, Exit]:
        """Return a call of a stretch as events, without their times and depths."""
        _, _, slot, arg0, result, data, errno, back = call
        pid, tid = stretch.pid, stretch.tid
        entry = Entry(0, pid, tid, slot, 0, 0, captured((arg0,), data), False)
        after = captured((), back) if back else NOTHING
        return entry, Exit(entry, 0, spent_ns, result, errno, after, ENDED_RETURN, pid, tid, slot)

    def names_path(self, entry: Entry, paths: Sequence[str]) -> bool:
        """Return whether an argument is one of some paths, in full."""
        for passed in self.prototypes.format_call(entry.slot, entry.captured, _ALL):
            argument = passed.told
            value = "" if argument.cut else argument.value
            if isinstance(value, str) and value and (value in paths or normpath(value) in paths):
                return True
        return False

    def unknown(self, condition: Condition) -> list[str]:
        """Return a line for each name of a condition that no call has had."""
        names = [name for name in sorted(condition.names - self._known) if not _number(name)]
        if not names:
            return []
        from soscope.select.filter import near_misses

        candidates = sorted({*self._known, *(name for row in self._names.values() for name in row)})
        lines = []
        for name in names:
            misses = near_misses(name, candidates)
            end = f"; did you mean {', '.join(misses)}?" if misses else ""
            lines.append(f"--where: none of the calls has a '{name}'{end}")
        return lines

    def place(self, slot: TracedSlot, name: str, arguments: list[Argument]) -> int | None:
        """Return the index of the argument with a name, None if the call has none."""
        number = _number(name)
        if number:
            return number - 1
        symbol = slot.symbol
        if symbol not in self._names:
            of = self.prototypes.row(symbol)
            fixed, tails = ([], []) if of is None else catalog.argument_names(of)
            self._names[symbol] = {said: place for place, said in enumerate(fixed)}
            self._tails[symbol] = tails
        place = self._names[symbol].get(name)
        if place is None:
            # Only their lengths tell which of several tails of arguments a call has.
            fixed_count = len(self._names[symbol])
            rest = len(arguments) - fixed_count
            tails = [tail for tail in self._tails[symbol] if len(tail) == rest]
            if len(tails) == 1 and name in tails[0]:
                place = fixed_count + tails[0].index(name)
        if place is not None:
            self._known.add(name)
        return place


class CallView:
    """One call. Called with a name, it returns the value of that property, None if not known."""

    __slots__ = ("_arguments", "_entry", "_leave", "_views")

    def __init__(self, views: CallViews, entry: Entry, leave: Exit | None) -> None:
        self._views = views
        self._entry = entry
        self._leave = leave
        self._arguments: list[Argument] | None = None

    def __call__(self, name: str) -> Value | None:
        """Return the value, its text, and whether only the beginning of the value is known."""
        of_entry = _OF_ENTRY.get(name)
        if of_entry is not None:
            value = of_entry(self._entry)
            return value, str(value), False
        if name in OF_END:
            return None if self._leave is None else self._end(name, self._leave)
        return self._argument(name)

    def _end(self, name: str, leave: Exit) -> Value | None:
        if name == "ended":
            return leave.ended, leave.ended, False
        if name == "duration":
            spent = leave.duration_ns
            return None if spent is None else (spent, str(spent), False)
        if leave.ended != ENDED_RETURN or leave.result is None:
            return None
        slot, prototypes = leave.slot, self._views.prototypes
        if name == "failed":
            fails = is_error(slot.error_rule, leave.result)
            return int(fails), str(fails), False
        if name == "errno":
            errno = prototypes.failure_errno(slot, leave)
            return None if errno is None else (errno, prototypes.errno_name(errno), False)
        return _value(prototypes.format_result(slot, leave, leave.entry, _ALL))

    def _argument(self, name: str) -> Value | None:
        slot, prototypes = self._entry.slot, self._views.prototypes
        if self._arguments is None:
            self._arguments = prototypes.format_call(slot, self._entry.captured, _ALL, self._leave)
        arguments = self._arguments
        place = self._views.place(slot, name, arguments)
        if place is None or place >= len(arguments):
            return None
        if self._leave is None:  # output arguments are not filled in yet
            known = prototypes.known_at_entry(slot)
            if known is not None and place >= known:
                return None
        return _value(arguments[place])


def _value(argument: Argument | None) -> Value | None:
    if argument is None:
        return None
    argument = argument.told
    if argument.value is None:
        return None
    value = argument.value
    if isinstance(value, int) and (argument.is_address or argument.type.endswith("*")):
        value = Address(value)
    return value, argument.text, argument.cut


def _number(name: str) -> int:
    """Return N of the name argN, counted from 1, and 0 for other names."""
    digits = name.removeprefix("arg")
    return int(digits) if digits != name and digits.isdigit() and len(digits) < 4 else 0


# A moment of a trace as users write it: a time after its beginning, or by the clock.

_HALF_DAY = 43_200
_SECOND = 1_000_000_000

AFTER = "after"  # ns after the beginning of the trace
EPOCH = "epoch"  # ns since 1970
CLOCK = "clock"  # ns since midnight, local time


class Moment(Record):
    """A moment: `ns` nanoseconds after the origin that `kind`, one of the constants, denotes."""

    kind: str
    ns: int

    def time_ns(self, start_ns: int) -> int:
        """Return CLOCK_REALTIME ns of the moment, in a trace that began at `start_ns`.

        A time of day belongs to the day on which the trace began, or to the next day if it would
        lie more than half a day before the beginning.
        """
        if self.kind == EPOCH:
            return self.ns
        if self.kind == AFTER:
            return start_ns + self.ns
        start = start_ns // _SECOND
        day = localtime(start)
        seconds, rest = divmod(self.ns, _SECOND)
        for later in (0, 1):
            minutes, second = divmod(seconds, 60)
            clock = minutes // 60, minutes % 60, second
            time = mktime((day.tm_year, day.tm_mon, day.tm_mday + later, *clock, 0, 0, -1))
            if time + _HALF_DAY >= start:
                break
        return int(time) * _SECOND + rest
