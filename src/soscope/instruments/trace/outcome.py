# SPDX-License-Identifier: Apache-2.0
"""What is known when a trace has ended: the programs, what was hooked, what was lost.

A live run and a recording that is read back both end in an `Outcome`; the reports know
nothing else.
"""

from __future__ import annotations

from soscope.instruments.trace.filter import Selection
from soscope.model.image import Image
from soscope.model.slot import Slot

# Why a recording ended before its program; "" if it did not.
STOPPED_DURATION = "duration"  # --duration
STOPPED_LIMIT = "limit"  # --limit
STOPPED_FULL = "full"  # --when-full=stop
STOPPED_CUT = "cut"  # a recording that ends in the middle: damaged, or soscope was killed

# What gives pointers away that are then called through no slot.
DLSYM = frozenset({"dlsym", "dlvsym"})

# slot index -> (calls, returns, errors, total, min, max), times in ticks of the clock
Cell = tuple[int, int, int, int, int, int]
Stats = dict[int, Cell]


class ProgramOutcome:
    """One traced program: what one control block held at the end.

    `index` is the `process` of its images and slots, `path` the file that was run.
    `images` are all that were seen. `slots` are, of those that the filter chose, the ones
    that a report may name: called, refused, or of DLSYM; all of them where a word of the
    filter matched nothing.
    `counts` (slot index -> calls) and `stats` are there in their modes only. `ns_per_tick`
    turns the ticks of `stats` into time. `rules_matched` has a number for each rule of the
    filter. `slots_left` counts function slots that nobody asked for, `loader_refused` says
    that images loaded later were not seen, `errno_known` that errno could be read.
    `cut` counts images and slots for which there was no room.
    """

    __slots__ = (
        "counts",
        "cut",
        "errno_known",
        "images",
        "index",
        "loader_refused",
        "ns_per_tick",
        "path",
        "rules_matched",
        "slots",
        "slots_left",
        "stats",
    )

    def __init__(
        self,
        index: int,
        path: str,
        images: list[Image],
        slots: list[Slot],
        *,
        counts: dict[int, int] | None = None,
        stats: Stats | None = None,
        ns_per_tick: float = 1.0,
        rules_matched: list[int] | None = None,
        slots_left: int = 0,
        loader_refused: bool = False,
        errno_known: bool = True,
        cut: int = 0,
    ) -> None:
        self.index = index
        self.path = path
        self.images = images
        self.slots = slots
        self.counts = counts
        self.stats = stats
        self.ns_per_tick = ns_per_tick
        self.rules_matched = rules_matched or []
        self.slots_left = slots_left
        self.loader_refused = loader_refused
        self.errno_known = errno_known
        self.cut = cut


class Programs:
    """Programs one after the other; what ran again and again is taken together.

    A shell script runs a few programs thousands of times: one `ProgramOutcome` for each
    program with the same images.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], tuple[ProgramOutcome, dict[object, int]]] = {}

    def add(self, program: ProgramOutcome) -> None:
        """Take a program; it is this object's from here on."""
        images = [(image.name, image.path, image.build_id) for image in program.images]
        key = (program.path, *images)
        known = self._found.get(key)
        if known is None:
            self._found[key] = program, {_key(slot): slot.index for slot in program.slots}
        else:
            _merge(program, *known)

    def all(self) -> list[ProgramOutcome]:
        """Return the programs in the order of their first run."""
        return [program for program, _ in self._found.values()]


def _key(slot: Slot) -> object:
    caller = slot.caller.index if slot.caller else None
    callee = slot.callee.index if slot.callee else None
    return slot.symbol, slot.version, caller, callee, slot.kind, slot.refusal


def _with_index(slot: Slot, index: int) -> Slot:
    made = Slot.__new__(Slot)
    for name in Slot.__slots__:
        setattr(made, name, getattr(slot, name))
    made.index = index
    return made


def _merge(one: ProgramOutcome, into: ProgramOutcome, places: dict[object, int]) -> None:
    """Add a run of a program to its others; `places` are the slots' indices by what they are."""
    index_of: dict[int, int] = {}  # slots are found in another order each time
    for slot in one.slots:
        key = _key(slot)
        if key not in places:
            places[key] = max(places.values(), default=-1) + 1
            into.slots.append(_with_index(slot, places[key]))
        index_of[slot.index] = places[key]
    for index, calls in (one.counts or {}).items():
        if into.counts is not None and index in index_of:
            at = index_of[index]
            into.counts[at] = into.counts.get(at, 0) + calls
    for index, stats in (one.stats or {}).items():
        if into.stats is not None and index in index_of:
            at = index_of[index]
            into.stats[at] = _sum(into.stats.get(at), stats)
    size = max(len(one.rules_matched), len(into.rules_matched))
    into.rules_matched = [
        sum(matched[at] for matched in (one.rules_matched, into.rules_matched) if at < len(matched))
        for at in range(size)
    ]
    into.slots_left = max(into.slots_left, one.slots_left)
    into.loader_refused |= one.loader_refused
    into.errno_known &= one.errno_known
    into.cut += one.cut


def _sum(one: Cell | None, other: Cell) -> Cell:
    """Add two cells of statistics; who has no returns has no shortest call either."""
    if one is None:
        return other
    calls, returns, errors, total, least, most = one
    if returns and other[1]:
        least = min(least, other[4])
    elif other[1]:
        least = other[4]
    return (
        calls + other[0],
        returns + other[1],
        errors + other[2],
        total + other[3],
        least,
        max(most, other[5]),
    )


class AttachedOutcome:
    """A process that ran before it was traced, and goes on.

    `has_ended`: it does not, or it is another program by now: `executed`, None if it ended.
    `longest_stop_ns` is for how long a thread of it stood still at
    most. `restored` counts the words that have their old value again, `left` those that
    somebody else has changed meanwhile, `kept` those by which unwinders still ask the agent,
    because calls may return through it. `failure` says why it could not be taken out.
    """

    __slots__ = (
        "executed",
        "failure",
        "has_ended",
        "kept",
        "left",
        "longest_stop_ns",
        "pid",
        "restored",
    )

    def __init__(
        self,
        pid: int,
        *,
        has_ended: bool,
        executed: str | None,
        longest_stop_ns: int,
        restored: int,
        kept: int,
        left: int,
        failure: str | None,
    ) -> None:
        self.pid = pid
        self.has_ended = has_ended
        self.executed = executed
        self.longest_stop_ns = longest_stop_ns
        self.restored = restored
        self.kept = kept
        self.left = left
        self.failure = failure


class Outcome:
    """The end of a trace.

    `status` is the exit status of the command, `signal` the number of the signal that
    killed it; both are None where the end was not seen. `calls` counts the calls that the
    event stream held (None: there was none). `dropped` are pairs of a count and a reason,
    for people. `stopped` is one of the STOPPED_ constants or "". `untraced` are pairs of a
    program and the reason why it ran untraced (a word of process.reasons), `remarks` lines
    that say what else could not be done.
    `imported` are the function symbols that images of the programs import, as far as
    somebody looked them up: they are the candidates for near misses. `record` is the
    recording that was written. `attached` is there for a process that was not started by us.
    """

    __slots__ = (
        "attached",
        "calls",
        "command",
        "dropped",
        "imported",
        "programs",
        "record",
        "remarks",
        "selection",
        "signal",
        "status",
        "stopped",
        "untraced",
    )

    def __init__(
        self,
        command: list[str],
        selection: Selection,
        *,
        status: int | None = None,
        signal: int | None = None,
        programs: list[ProgramOutcome] | None = None,
        calls: int | None = None,
        dropped: list[tuple[int, str]] | None = None,
        stopped: str = "",
        untraced: list[tuple[str, str]] | None = None,
        remarks: list[str] | None = None,
        imported: set[str] | None = None,
        record: str | None = None,
    ) -> None:
        self.command = command
        self.selection = selection
        self.status = status
        self.signal = signal
        self.programs = programs or []
        self.calls = calls
        self.dropped = dropped or []
        self.stopped = stopped
        self.untraced = untraced or []
        self.remarks = remarks or []
        self.imported = imported or set()
        self.record = record
        self.attached: AttachedOutcome | None = None

    @property
    def dropped_count(self) -> int:
        """Return how many events are missing in all."""
        return sum(count for count, _ in self.dropped)
