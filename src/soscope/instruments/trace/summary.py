# SPDX-License-Identifier: Apache-2.0
"""Sum up the calls of a trace by function, by pair of images, or by call path."""

from __future__ import annotations

from soscope.instruments.trace.listener import Listener, Nesting
from soscope.model.call import (
    ENDED_RETURN,
    Cell,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    Stretch,
    importance,
    is_told,
)
from soscope.model.image import ERROR_NONE, TracedSlot, is_error
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from soscope.instruments.trace.outcome import TraceProgramOutcome


# Sums for each call path: a function, and the open calls inside of which it was called.

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


class NamedWay(Record):
    """The call paths of slots with the same names, as one row.

    `names` are caller, callee, symbol and version. `errors` is None if it is not known when the
    function fails, and times are None if no return was seen. `above` is the number of the row
    that the path continues, None if there is none. `doubt_ns` is the possible error of `self_ns`,
    `total_doubt_ns` the one of `total_ns`: each return may add the cost of a hook to the times
    of all calls around it.
    """

    names: tuple[str, str, str, str]
    above: int | None
    depth: int
    calls: int = 0
    errors: int | None = None
    total_ns: int | None = None
    self_ns: int | None = None
    doubt_ns: int | None = None
    total_doubt_ns: int | None = None

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
    """Return the number of returns on each call path and the paths that continue it, by id."""
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
            names = _names(slot)
            if names not in merged:
                merged[names] = NamedWay(names, above, depth), []
            row, parts = merged[names]
            row.add(below)
            parts.append(below)
    return list(merged.values())


# Reduces the agent's counts to one row for each function and pair of images.


class SummaryRow(Record):
    """The calls of one function.

    `caller` and `callee` are names of images, "" if unknown. `returns` are the calls whose end
    was seen, and `total_ns`, `min_ns` and `max_ns` belong to them; they are None if there are
    none. `self_ns` is `total_ns` without the time of observed calls inside these, so its sum over
    all rows is the time of all calls. It is also None if an older recording does not have it.
    `doubt_ns` is the possible error of each of the two, which is the cost of the hooks, None if
    not known. `durations` are numbers of returns by class of duration (`recording.durations`),
    None if they were not asked for or are not known. `errors` is None if failures cannot be told,
    because nothing was timed or the function is unknown. `is_lower_bound` means that further
    calls may not have been seen.
    """

    caller: str
    callee: str
    symbol: str
    version: str
    calls: int = 0
    returns: int = 0
    errors: int | None = None
    total_ns: int | None = None
    self_ns: int | None = None
    doubt_ns: int | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    durations: dict[int, int] | None = None
    is_lower_bound: bool = False

    def __repr__(self) -> str:
        times = "" if self.total_ns is None else f", {self.total_ns / 1e6:.3f} ms"
        calls = f"{self.calls:,} call{'s' * (self.calls != 1)}"
        errors = f", {self.errors:,} error{'s' * (self.errors != 1)}" if self.errors else ""
        images = f" ({self.caller or '?'} to {self.callee or '?'})" if self.caller else ""
        return f"<{self.symbol}: {calls}{times}{errors}{images}>"

    def add(self, other: SummaryRow) -> None:
        """Add the calls of another row."""
        self.calls += other.calls
        self.returns += other.returns
        self.is_lower_bound |= other.is_lower_bound
        if other.errors is not None:
            self.errors = (self.errors or 0) + other.errors
        if other.total_ns is not None and other.min_ns is not None and other.max_ns is not None:
            is_known = self.total_ns is None or self.self_ns is not None
            own = None if other.self_ns is None or not is_known else other.self_ns
            self.self_ns = None if own is None else (self.self_ns or 0) + own
            self.total_ns = (self.total_ns or 0) + other.total_ns
            least, most = self.min_ns, self.max_ns
            self.min_ns = other.min_ns if least is None else min(least, other.min_ns)
            self.max_ns = other.max_ns if most is None else max(most, other.max_ns)
        if other.doubt_ns is not None:
            self.doubt_ns = (self.doubt_ns or 0) + other.doubt_ns
        if other.durations is not None:
            mine = self.durations = dict(self.durations or {})
            for index, count in other.durations.items():
                mine[index] = mine.get(index, 0) + count

    def time_ns(self, *, inclusive: bool) -> int | None:
        """Return the time of the calls, without or `inclusive` of the calls inside."""
        return self.total_ns if inclusive else self.self_ns

    def is_told(self) -> bool:
        """Return whether the own time of the calls is larger than its possible error."""
        return is_told(self.self_ns, self.doubt_ns)

    @property
    def doubt_of_call_ns(self) -> float | None:
        """Return the possible error of the time of each call, None if it is not known."""
        return None if self.doubt_ns is None or not self.returns else self.doubt_ns / self.returns


def rows_of(programs: Iterable[TraceProgramOutcome]) -> list[SummaryRow]:
    """Return a row for each caller, callee, symbol and version that was called.

    Programs are added up. Rows with most time come first, or with most calls if nothing was
    timed.
    """
    merged: dict[tuple[str, str, str, str], SummaryRow] = {}
    for program in programs:
        slots = {slot.index: slot for slot in program.slots}
        for index, calls in (program.counts or {}).items():
            if index in slots and calls:
                _row(merged, slots[index]).calls += calls
        for index, stats in (program.stats or {}).items():
            if index in slots and stats[0]:
                slot = slots[index]
                row = _timed(slot, stats, program.ns_per_tick, program.doubt_ticks)
                row.durations = (program.durations or {}).get(index)
                _row(merged, slot).add(row)
    return in_order(merged.values())


def by_function(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Merge the rows of one symbol, of all callers and versions."""
    return _merged_summary(rows, lambda row: ("", "", row.symbol))


def by_caller(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Merge the rows of one symbol and one calling image."""
    return _merged_summary(rows, lambda row: (row.caller, "", row.symbol))


def by_image(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Merge the rows of all functions of one image, of all callers."""
    return _merged_summary(rows, lambda row: ("", row.callee, ""))


def _merged_summary(
    rows: Iterable[SummaryRow], names: Callable[[SummaryRow], tuple[str, str, str]]
) -> list[SummaryRow]:
    merged: dict[tuple[str, str, str], SummaryRow] = {}
    for row in rows:
        key = names(row)
        into = merged.get(key)
        if into is None:
            into = merged[key] = SummaryRow(*key, "")
        into.add(row)
    return in_order(merged.values())


def in_order(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Sort rows: most own time first, then most calls, then by name.

    Times that are not larger than their possible error come last, unless they matter.
    """
    rows = list(rows)
    whole = sum(r.self_ns or 0 for r in rows)
    return sorted(
        rows,
        key=lambda r: (
            importance(r.self_ns, r.doubt_ns, whole),
            -((r.total_ns if r.self_ns is None else r.self_ns) or 0),
            -r.calls,
            r.symbol,
            r.caller,
            r.callee,
            r.version,
        ),
    )


def _names(slot: TracedSlot) -> tuple[str, str, str, str]:
    """Return the names of a slot's caller and callee, its symbol, and the symbol's version."""
    caller = slot.caller.name if slot.caller else ""
    callee = slot.callee.name if slot.callee else ""
    return caller, callee, slot.symbol, slot.version


def _row(merged: dict[tuple[str, str, str, str], SummaryRow], slot: TracedSlot) -> SummaryRow:
    """Find or make the row of a slot."""
    key = _names(slot)
    row = merged.get(key)
    if row is None:
        row = merged[key] = SummaryRow(*key)
    row.is_lower_bound |= slot.partial
    return row


def _timed(slot: TracedSlot, stats: Cell, ns_per_tick: float, doubt_ticks: float) -> SummaryRow:
    """Make the row of one cell of the agent's statistics.

    `doubt_ticks` is the possible error of each return's time.
    """
    calls, returns, errors, total, least, most, own = stats
    row = SummaryRow("", "", slot.symbol, "")
    row.calls, row.returns = calls, returns
    if returns:
        row.total_ns = round(total * ns_per_tick)
        row.self_ns = None if own is None else round(own * ns_per_tick)
        row.doubt_ns = round(returns * doubt_ticks * ns_per_tick) if doubt_ticks else None
        row.min_ns = round(least * ns_per_tick)
        row.max_ns = round(most * ns_per_tick)
        if slot.prototype is not None or slot.error_rule != ERROR_NONE:
            row.errors = errors
    return row


# The graph of images that call each other, with sums over all functions between two.

UNKNOWN = "?"


class ImageEdge(Record):
    """The calls that one image makes of another's functions.

    `sums` is for all of them, and `functions` for each function, with most own time first.
    """

    sums: SummaryRow
    functions: list[SummaryRow]

    @property
    def caller(self) -> str:
        """Return the name of the calling image."""
        return self.sums.caller or UNKNOWN

    @property
    def callee(self) -> str:
        """Return the name of the called image."""
        return self.sums.callee or UNKNOWN


def edges_of(rows: Iterable[SummaryRow]) -> list[ImageEdge]:
    """Return an edge for each pair of images with calls, most own time first."""
    pairs: dict[tuple[str, str], list[SummaryRow]] = {}
    for row in rows:
        pairs.setdefault((row.caller, row.callee), []).append(row)
    edges: dict[int, ImageEdge] = {}
    sums = []
    for (caller, callee), some in pairs.items():
        whole = SummaryRow(caller, callee, "", "")
        for row in some:
            whole.add(row)
        sums.append(whole)
        edges[id(whole)] = ImageEdge(whole, by_function(some))
    return [edges[id(whole)] for whole in in_order(sums)]


def inside(edges: Iterable[ImageEdge]) -> dict[str, SummaryRow]:
    """Return the sums of all calls into each image, by name. Images that only call are included."""
    images: dict[str, SummaryRow] = {}
    for edge in edges:
        images.setdefault(edge.caller, SummaryRow("", edge.caller, "", ""))
        images.setdefault(edge.callee, SummaryRow("", edge.callee, "", "")).add(edge.sums)
    return images
