# SPDX-License-Identifier: Apache-2.0
"""Sums for each way to a function: through which calls, open at once, a program comes to it."""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.nesting import Nesting
from soscope.model.call import ENDED_RETURN, Entry, Event, Exit, ProcessExit, ProcessStart, Stretch
from soscope.model.slot import ERROR_NONE, TracedSlot, is_error
from soscope.model.stats import importance

MOST = 1 << 18  # ways that are told apart: with more of them, new ones are one


class Way:
    """Calls of a function inside of certain others; `below` are the ways that lead on.

    `slot` is None for the root, and for all ways that came when there were MOST.
    `errors` are calls that failed. Times are ns: `total_ns` is that of all `returns`, `self_ns`
    without what calls inside of them took, as `-c` has it.
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
    """Takes calls, and adds them up by their way. `root` stands for all that was traced.

    Calls that were not chosen are on no way; what they took is the own time of those around them.
    """

    takes_stretches = True
    wants_callers = True

    def __init__(self) -> None:
        self.root = Way(None)
        self.beyond = Way(None)  # calls whose way is one too many
        self._size = 0
        self._nesting = Nesting()
        self._spent: dict[int, int] = {}  # ns that calls of a thread have taken, each once

    def events(self, batch: list[Event]) -> None:
        """Add some calls and returns."""
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
        # with what the calls of the thread have taken until now
        self._nesting.enter(entry, (way, self._spent.get(entry.tid, 0)))

    def _leave(self, leave: Exit, entry: Entry) -> None:
        _, call = self._nesting.leave(leave)
        if call is None or leave.is_inherited or leave.ended != ENDED_RETURN:
            return  # what a child returns from that its parent called is no call of its own
        way, before = call.what
        spent = max(leave.duration_ns or 0, 0)
        own = 0
        if leave.tid == entry.tid:  # else it is a coroutine, which has gone on elsewhere
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
        """Return the way that leads on to a slot's function."""
        way = above.below.get(slot)
        if way is None:
            if self._size >= MOST or above is self.beyond:
                return self.beyond
            self._size += 1
            way = above.below[slot] = Way(slot)
        return way


class NamedWay:
    """What the ways of some slots to one function by one image have together.

    `names` are caller, callee, symbol and version; `errors` is None where nobody knows when the
    function fails, times are None where no return was seen. `above` is the number of the row
    that it leads through, in their order, None: of none. `doubt_ns` is by how much `self_ns` may be
    wrong, and `total_doubt_ns` the same of `total_ns`: each return may add what a hook costs to the
    times of all calls around it.
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
        """Add the calls of one way."""
        self.calls += way.calls
        if way.tells_errors:
            self.errors = (self.errors or 0) + way.errors
        if way.returns:
            self.total_ns = (self.total_ns or 0) + way.total_ns
            self.self_ns = (self.self_ns or 0) + way.self_ns

    def add_doubt(self, own_ns: float, total_ns: float) -> None:
        """Add by how much the two times of one way may be wrong."""
        self.doubt_ns = (self.doubt_ns or 0) + round(own_ns)
        self.total_doubt_ns = (self.total_doubt_ns or 0) + round(total_ns)


def named_ways(tree: CallTree, doubt_ns: float) -> list[NamedWay]:
    """Return a row for each way by names, each before those through it, the longest first.

    Slots of several programs, or loads, that have the same names are one. Ways of which the time
    may be as wrong as it is long come behind others that matter: the time of each return may be
    wrong by `doubt_ns`, 0: nobody knows.
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
    """Return a key that puts the ways first that take longest of all `whole_ns`."""
    rank = importance(row.total_ns, row.total_doubt_ns, whole_ns)
    return rank, -(row.total_ns or 0), -row.calls


def _hooked(root: Way) -> dict[int, int]:
    """Return how many returns there were on each way and behind it, by its id."""
    ways = [root]
    for way in ways:
        ways += way.below.values()
    hooked: dict[int, int] = {}
    for way in reversed(ways):
        hooked[id(way)] = way.returns + sum(hooked[id(inner)] for inner in way.below.values())
    return hooked


def _merged(ways: list[Way], above: int | None, depth: int) -> list[tuple[NamedWay, list[Way]]]:
    """Return the rows one step behind some ways, with the ways that each is made of."""
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
