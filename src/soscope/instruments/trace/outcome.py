# SPDX-License-Identifier: Apache-2.0
"""The outcome of a trace: the programs, what was hooked, what was lost.

A live run and a recording that is read back both end in a `TraceOutcome`. Reports use nothing
else.
"""

from __future__ import annotations

from soscope.control import outcome as session
from soscope.control.cost import Price
from soscope.model.call import Delays, Stats, add
from soscope.model.image import (
    IMAGE_LATE,
    IMAGE_METHODS_UNSEEN,
    IMAGE_UNREADABLE,
    IMAGE_WRITE_REFUSED,
    TracedImage,
    TracedSlot,
)
from soscope.select.filter import Selection

STOPPED_CUT = "cut"  # a recording that ends in the middle: damaged, or soscope was killed

# Flags of images whose calls were not seen, or not all of them.
_NOT_WHOLE = IMAGE_LATE | IMAGE_UNREADABLE | IMAGE_WRITE_REFUSED | IMAGE_METHODS_UNSEEN

# Functions that return pointers which are then called through no slot.
DLSYM = frozenset({"dlsym", "dlvsym"})


class TraceProgramOutcome(session.ProgramOutcome):
    """One traced program: the contents of one control block at the end.

    `slots` are the chosen slots that a report may list: called, refused, partial, or of DLSYM. If
    a word of the filter has matched nothing, they are all chosen slots. `counts` (slot index ->
    calls) and `stats` are set in their modes only. `ns_per_tick` converts the ticks of `stats`.
    `rules_matched` has a number for each rule of the filter. `slots_left` counts function slots
    that were not chosen. `loader_refused` means that images loaded later were not seen,
    `errno_known` that errno could be read, and `exits_known` that returns could be seen. `cut`
    counts images and slots for which there was no room: see `without_room`. `durations` are
    numbers of returns by slot and class (`recording.durations`), if they were asked for.
    `call_ticks` is the least cost of a call for its caller in ticks, as measured by the agent (0:
    not measured), and `usual_ticks` its cost among other calls. `doubt_ticks` is the possible
    error of the time of each return. `delays` are waits for a processor during calls with times.
    `records` means that each call was recorded.
    """

    __slots__ = (
        "call_ticks",
        "counts",
        "cut",
        "delays",
        "doubt_ticks",
        "durations",
        "errno_known",
        "exits_known",
        "loader_refused",
        "ns_per_tick",
        "records",
        "rules_matched",
        "slots",
        "slots_left",
        "stats",
        "usual_ticks",
    )

    def __init__(
        self,
        index: int,
        path: str,
        images: list[TracedImage],
        slots: list[TracedSlot],
        *,
        counts: dict[int, int] | None = None,
        stats: Stats | None = None,
        ns_per_tick: float = 1.0,
        rules_matched: list[int] | None = None,
        slots_left: int = 0,
        loader_refused: bool = False,
        errno_known: bool = True,
        exits_known: bool = True,
        cut: int = 0,
        durations: dict[int, dict[int, int]] | None = None,
        call_ticks: int = 0,
        usual_ticks: int = 0,
        doubt_ticks: float = 0,
        delays: Delays | None = None,
        records: bool = False,
    ) -> None:
        super().__init__(index, path, images)
        self.slots = slots
        self.counts = counts
        self.stats = stats
        self.ns_per_tick = ns_per_tick
        self.rules_matched = rules_matched or []
        self.slots_left = slots_left
        self.loader_refused = loader_refused
        self.errno_known = errno_known
        self.exits_known = exits_known
        self.cut = cut
        self.durations = durations
        self.call_ticks = call_ticks
        self.usual_ticks = usual_ticks
        self.doubt_ticks = doubt_ticks
        self.delays = delays or Delays()
        self.records = records

    @property
    def without_room(self) -> dict[int, int]:
        """Return how many slots found no room in the table of slots, by the index of their image.

        The image counts them as refused, but they have no record with a name.
        """
        missing = {image.index: image.slots_refused for image in self.images}
        for slot in self.slots:
            if not slot.is_hooked and slot.caller is not None and slot.caller.index in missing:
                missing[slot.caller.index] -= 1
        return {index: count for index, count in missing.items() if self.cut and count > 0}

    @property
    def lacks_calls(self) -> bool:
        """Return whether calls that were asked for, or their returns, could not be seen."""
        return (
            self.loader_refused
            or not self.exits_known
            or self.cut > 0
            or any(slot.partial or not slot.is_hooked for slot in self.slots)
            or any(image.flags & _NOT_WHOLE for image in self.images)
        )


class MergedPrograms:
    """Programs one after the other. Repeated runs of one program are added up.

    A shell script runs a few programs thousands of times. They become one `TraceProgramOutcome`
    for each program with the same images.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], tuple[TraceProgramOutcome, dict[object, int]]] = {}

    def add(self, program: TraceProgramOutcome) -> None:
        """Add a program, which belongs to this object from then on."""
        known = self._found.get(program.key)
        if known is None:
            self._found[program.key] = program, {_key(slot): slot.index for slot in program.slots}
        else:
            _merge(program, *known)

    def all(self) -> list[TraceProgramOutcome]:
        """Return the programs in the order in which the first run of each ended."""
        return [program for program, _ in self._found.values()]


def _key(slot: TracedSlot) -> object:
    caller = slot.caller.index if slot.caller else None
    callee = slot.callee.index if slot.callee else None
    return slot.symbol, slot.version, caller, callee, slot.kind, slot.refusal, slot.partial


def _with_index(slot: TracedSlot, index: int) -> TracedSlot:
    made = TracedSlot.__new__(TracedSlot)
    for name in TracedSlot.__slots__:
        setattr(made, name, getattr(slot, name))
    made.index = index
    return made


def _merge(run: TraceProgramOutcome, into: TraceProgramOutcome, places: dict[object, int]) -> None:
    """Add a run of a program to earlier runs. `places` are the indices of known slots by key."""
    index_of: dict[int, int] = {}  # the order of slots differs in each run
    for slot in run.slots:
        key = _key(slot)
        if key not in places:
            places[key] = max(places.values(), default=-1) + 1
            into.slots.append(_with_index(slot, places[key]))
        index_of[slot.index] = places[key]
    for index, calls in (run.counts or {}).items():
        if into.counts is not None and index in index_of:
            at = index_of[index]
            into.counts[at] = into.counts.get(at, 0) + calls
    for index, stats in (run.stats or {}).items():
        if into.stats is not None and index in index_of:
            at = index_of[index]
            into.stats[at] = add(into.stats.get(at), stats)
    for index, classes in (run.durations or {}).items():
        if into.durations is not None and index in index_of:
            there = into.durations.setdefault(index_of[index], {})
            for each, returns in classes.items():
                there[each] = there.get(each, 0) + returns
    size = max(len(run.rules_matched), len(into.rules_matched))
    into.rules_matched = [
        sum(matched[at] for matched in (run.rules_matched, into.rules_matched) if at < len(matched))
        for at in range(size)
    ]
    into.slots_left = max(into.slots_left, run.slots_left)
    into.loader_refused |= run.loader_refused
    into.errno_known &= run.errno_known
    into.exits_known &= run.exits_known
    into.cut += run.cut
    into.call_ticks = max(into.call_ticks, run.call_ticks)
    into.usual_ticks = max(into.usual_ticks, run.usual_ticks)
    into.doubt_ticks = max(into.doubt_ticks, run.doubt_ticks)
    into.delays.add(run.delays)


class TraceOutcome(session.Outcome):
    """The end of a trace.

    `calls` counts the calls in the event stream (None if there was no stream), and `shown` those
    of them that were shown (None if all were). `imported` are the function symbols that images of
    the programs import, if they were looked up, as candidates for near misses. `has_marks` means
    that a report has marked times that are not larger than their possible error.
    """

    __slots__ = ("calls", "has_marks", "imported", "selection", "shown")

    programs: list[TraceProgramOutcome]

    def __init__(
        self,
        command: list[str],
        selection: Selection,
        *,
        status: int | None = None,
        signal: int | None = None,
        programs: list[TraceProgramOutcome] | None = None,
        calls: int | None = None,
        dropped: list[tuple[int, str]] | None = None,
        stopped: str = "",
        untraced: list[tuple[str, str]] | None = None,
        remarks: list[str] | None = None,
        imported: set[str] | None = None,
        record: str | None = None,
    ) -> None:
        super().__init__(
            command,
            status=status,
            signal=signal,
            programs=programs or [],
            untraced=untraced,
            dropped=dropped,
            stopped=stopped,
            remarks=remarks,
            record=record,
        )
        self.selection = selection
        self.calls = calls
        self.shown: int | None = None
        self.imported = imported or set()
        self.has_marks = False

    @property
    def doubt_ns(self) -> float:
        """Return the possible error of the time of each return in ns, 0 if it is not known."""
        return max((each.doubt_ticks * each.ns_per_tick for each in self.programs), default=0)

    @property
    def delays(self) -> Delays:
        """Return how long threads of all programs waited for a processor."""
        delays = Delays()
        for program in self.programs:
            delays.add(program.delays)
        return delays

    @classmethod
    def of(
        cls,
        ended: session.Outcome,
        selection: Selection,
        *,
        programs: list[TraceProgramOutcome],
        calls: int | None,
        imported: set[str],
    ) -> TraceOutcome:
        """Make the outcome of a trace from the outcome of its session."""
        made = cls(ended.command, selection, programs=programs, calls=calls, imported=imported)
        for name in session.Outcome.__slots__:
            if name != "programs":
                setattr(made, name, getattr(ended, name))
        return made

    @property
    def is_whole(self) -> bool:
        """Return whether all calls that were asked for could be seen."""
        return super().is_whole and not any(program.lacks_calls for program in self.programs)


def price(
    cost: Price, programs: list[TraceProgramOutcome], ns_per_tick: float, units: int | None
) -> None:
    """Add to `cost` the time that hooks added to the calls of `programs`.

    The agents have measured the cost of an empty call. `units` is the number of units that such
    calls recorded, None if it is not known. The cost of keeping strings and structures is in
    `cost` already.
    """
    usual = max((_usual(program) for program in programs), default=0)
    if not usual:
        return
    cost.call_ns = round(max(program.call_ticks for program in programs) * ns_per_tick, 1)
    if any(program.records for program in programs):
        ticks = None if units is None else usual * units
    else:
        ticks = sum(_counted(program) * _usual(program) for program in programs)
    if ticks is not None:
        cost.calls_ns = (cost.calls_ns or 0) + round(ticks * ns_per_tick)


def _usual(program: TraceProgramOutcome) -> int:
    """Return the cost of a call among others in ticks, which is at least its least cost."""
    return max(program.usual_ticks, program.call_ticks)


def _counted(program: TraceProgramOutcome) -> int:
    """Return how many calls the program counted, with or without times."""
    if program.counts is not None:
        return sum(program.counts.values())
    return sum(cell[1] for cell in (program.stats or {}).values())
