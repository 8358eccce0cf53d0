# SPDX-License-Identifier: Apache-2.0
"""Looks up properties of single calls by name: arguments, result, and others."""

from __future__ import annotations

from os.path import normpath

from soscope.instruments.trace.choice import OF_END
from soscope.model.call import ENDED_RETURN, NOTHING, Entry, Exit, Stretch, WholeCall
from soscope.model.image import TracedSlot, is_error
from soscope.prototypes import compiled
from soscope.recording.units import captured
from soscope.select.where import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.prototypes import Prototypes
    from soscope.prototypes.formats import Argument
    from soscope.select.where import Condition, Value

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

    def names_path(self, entry: Entry, paths: Iterable[str]) -> bool:
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
            fixed, tails = ([], []) if of is None else compiled.argument_names(of)
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
