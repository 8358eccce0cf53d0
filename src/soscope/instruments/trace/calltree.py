# SPDX-License-Identifier: Apache-2.0
"""Sums for each call path: a function, and the open calls inside of which it was called."""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.nesting import Nesting
from soscope.model.call import (
    ENDED_RETURN,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Stretch,
    importance,
)
from soscope.model.image import ERROR_NONE, TracedSlot, is_error

MOST = 1 << 18  # call paths that are told apart; new ones beyond that are added up as one


class Way:
    """Calls of a function on one call path. `below` are the paths that continue it.

    `slot` is None for the root, and for all call paths beyond MOST. `errors` are calls that
    failed. Times are ns: `total_ns` is the time of all `returns`, and `self_ns` excludes the
    calls inside of them, as with `-c`.
    """

    __slots__ = ("below", "calls", "errors", "returns", "self_ns", "slot", "total_ns")

    def __init__(self, slot: TracedSlot | None) -> None:
        self.slot = slot
        self.calls = self.returns = self.errors = self.total_ns = self.self_ns = 0
        self.below: dict[TracedSlot, Way] = {}

    @property
    def tells_errors(self) -> bool:
        """Return whether it is known when the function fails."""
        slot = self.slot
        known = slot is not None and (slot.prototype is not None or slot.error_rule != ERROR_NONE)
        return known and self.returns > 0


class CallTree(Listener):
    """Adds up calls by call path. `root` stands for everything that was traced.

    Calls that were not chosen are on no path. Their time belongs to the calls around them.
    """

    takes_stretches = True
    wants_callers = True

    def __init__(self) -> None:
        self.root = Way(None)
        self.beyond = Way(None)  # calls of call paths beyond MOST
        self._size = 0
        self._nesting = Nesting()
        self._spent: dict[int, int] = {}  # ns in outermost calls, by thread

    def events(self, batch: list[Event]) -> None:
        """Add entries and exits of calls."""
        for event in batch:
            if isinstance(event, Stretch):
                self._stretch(event)
            elif isinstance(event, Entry):
                self._enter(event)
            elif isinstance(event, Exit):
                if event.entry is not None:
                    self._leave(event, event.entry)
            elif isinstance(event, ProcessExit) or (
                isinstance(event, ProcessStart) and event.event != "fork"
            ):
                self._nesting.forget(event.pid)

    def _enter(self, entry: Entry) -> None:
        around = self._nesting.around(entry.tid, entry.depth)
        way = self._through(around[-1].what[0] if around else self.root, entry.slot)
        way.calls += 1
        # Keep with it the time that the thread's calls have taken so far.
        self._nesting.enter(entry, (way, self._spent.get(entry.tid, 0)))

    def _leave(self, leave: Exit, entry: Entry) -> None:
        _, call = self._nesting.leave(leave)
        if call is None or leave.is_inherited or leave.ended != ENDED_RETURN:
            return  # a child returns from a call that its parent made
        way, before = call.what
        spent = max(leave.duration_ns or 0, 0)
        own = 0
        if leave.tid == entry.tid:  # else it is a coroutine, now on another thread
            sum_ns = self._spent.get(entry.tid, 0)
            own = max(spent - (sum_ns - before), 0)
            self._spent[entry.tid] = sum_ns + own
        way.returns += 1
        way.total_ns += spent
        way.self_ns += own
        if leave.result is not None:
            way.errors += is_error(entry.slot.error_rule, leave.result)

    def _stretch(self, stretch: Stretch) -> None:
        around = self._nesting.around(stretch.tid, stretch.depth)
        above = around[-1].what[0] if around else self.root
        even, sum_ns = stretch.piece[4], 0
        for _, ticks, slot, _, result, *_ in stretch.calls:
            way = above.below.get(slot) or self._through(above, slot)
            spent = int(ticks * even // 1)
            sum_ns += spent
            way.calls += 1
            way.returns += 1
            way.total_ns += spent
            way.self_ns += spent
            if slot.error_rule:
                way.errors += is_error(slot.error_rule, result)
        self._spent[stretch.tid] = self._spent.get(stretch.tid, 0) + sum_ns

    def _through(self, above: Way, slot: TracedSlot) -> Way:
        """Return the call path that continues to a slot's function."""
        way = above.below.get(slot)
        if way is None:
            if self._size >= MOST or above is self.beyond:
                return self.beyond
            self._size += 1
            way = above.below[slot] = Way(slot)
        return way


class NamedWay:
    """The call paths of slots with the same names, as one row.

    `names` are caller, callee, symbol and version. `errors` is None if it is not known when the
    function fails, and times are None if no return was seen. `above` is the number of the row
    that the path continues, None if there is none. `doubt_ns` is the possible error of `self_ns`,
    and `total_doubt_ns` that of `total_ns`: each return may add the cost of a hook to the times
    of all calls around it.
    """

    __slots__ = (
        "above",
        "calls",
        "depth",
        "doubt_ns",
        "errors",
        "names",
        "self_ns",
        "total_doubt_ns",
        "total_ns",
    )

    def __init__(self, names: tuple[str, str, str, str], above: int | None, depth: int) -> None:
        self.names = names
        self.above = above
        self.depth = depth
        self.calls = 0
        self.errors: int | None = None
        self.total_ns: int | None = None
        self.self_ns: int | None = None
        self.doubt_ns: int | None = None
        self.total_doubt_ns: int | None = None

    def add(self, way: Way) -> None:
        """Add the calls of one call path."""
        self.calls += way.calls
        if way.tells_errors:
            self.errors = (self.errors or 0) + way.errors
        if way.returns:
            self.total_ns = (self.total_ns or 0) + way.total_ns
            self.self_ns = (self.self_ns or 0) + way.self_ns

    def add_doubt(self, own_ns: float, total_ns: float) -> None:
        """Add the possible errors of the two times of one call path."""
        self.doubt_ns = (self.doubt_ns or 0) + round(own_ns)
        self.total_doubt_ns = (self.total_doubt_ns or 0) + round(total_ns)


def named_ways(tree: CallTree, doubt_ns: float) -> list[NamedWay]:
    """Return a row for each call path by names, before the rows that continue it, longest first.

    Slots of several programs or loads that have the same names become one row. Call paths whose
    time is not larger than its possible error come last, unless they matter. The time of each
    return may be wrong by `doubt_ns`, 0 if that is not known.
    """
    rows: list[NamedWay] = []
    hooked = _hooked(tree.root) if doubt_ns else {}
    whole_ns = sum(way.total_ns for way in tree.root.below.values())

    def below(ways: list[Way], above: int | None, depth: int) -> list[tuple[NamedWay, list[Way]]]:
        made = _merged(ways, above, depth)
        for row, parts in made if hooked else ():
            for way in parts:
                own = way.returns + sum(inner.returns for inner in way.below.values())
                row.add_doubt(own * doubt_ns, hooked[id(way)] * doubt_ns)
        return sorted(made, key=lambda each: way_rank(each[0], whole_ns))[::-1]

    rest = below([tree.root], None, 0)
    while rest:
        row, ways = rest.pop()
        rows.append(row)
        rest += below(ways, len(rows) - 1, row.depth + 1)
    return rows


def way_rank(row: NamedWay, whole_ns: int) -> tuple[int, int, int]:
    """Return a sort key: call paths that take the largest part of `whole_ns` first."""
    rank = importance(row.total_ns, row.total_doubt_ns, whole_ns)
    return rank, -(row.total_ns or 0), -row.calls


def _hooked(root: Way) -> dict[int, int]:
    """Return how many returns there were on each call path and on those that continue it, by id."""
    ways = [root]
    for way in ways:
        ways += way.below.values()
    hooked: dict[int, int] = {}
    for way in reversed(ways):
        hooked[id(way)] = way.returns + sum(hooked[id(inner)] for inner in way.below.values())
    return hooked


def _merged(ways: list[Way], above: int | None, depth: int) -> list[tuple[NamedWay, list[Way]]]:
    """Return the rows that continue some call paths, each with the paths that it consists of."""
    merged: dict[tuple[str, str, str, str], tuple[NamedWay, list[Way]]] = {}
    for way in ways:
        for slot, below in way.below.items():
            names = (
                slot.caller.name if slot.caller else "",
                slot.callee.name if slot.callee else "",
                slot.symbol,
                slot.version,
            )
            if names not in merged:
                merged[names] = NamedWay(names, above, depth), []
            row, parts = merged[names]
            row.add(below)
            parts.append(below)
    return list(merged.values())
