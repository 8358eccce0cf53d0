# SPDX-License-Identifier: Apache-2.0
"""Calls through slots, counted by call site, as arcs between functions."""

from __future__ import annotations

from soscope.control.settings import Hooks, Instrument
from soscope.instruments.prof.names import RecordedNames
from soscope.instruments.prof.views import ArcSums
from soscope.model.image import IMAGE_CLOSED, IMAGE_METHODS_UNSEEN, SLOT_METHOD, TracedSlot
from soscope.prototypes import load
from soscope.recording.names import NO_SLOT, RecordedProgram
from soscope.recording.reader import RecordingFile
from soscope.recording.sink import Sink
from soscope.select.filter import compile_selection
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from soscope.control.outcome import Price, ProgramOutcome
    from soscope.model.call import Stats


# The boundary instrument: counts or times of the calls through the slots of all images.
#
#     images ─► hooks of COUNT or STATS        a program's block ─► counts or statistics by slot
#
# The agent writes the numbers to the block, and soscope reads them there.

COUNT, TIME = "count", "time"
WAYS = (COUNT, TIME)
_KINDS = {COUNT: layout.INSTRUMENT_COUNT, TIME: layout.INSTRUMENT_STATS}


class BoundaryInstrument(Instrument):
    """Counts or times the calls that one image makes into another one.

    `way` is COUNT or TIME.
    """

    name = "boundary"

    def __init__(self, way: str, images: list[str]) -> None:
        """Make the hooks for calls into `images`, patterns as of `-l` ([]: all images).

        Raises UsageError.
        """
        self.way = way
        self.hooks = Hooks(
            _KINDS[way],
            compile_selection([], ["all"], images),
            load(),
            callers=True,
            methods=True,
        )
        self._calls = 0
        self._ticks = 0  # ticks that hooks have added to the calls
        # Counters as they were when soscope stopped counting.
        self._counted: dict[ControlBlock, tuple[dict[int, int] | None, Stats | None]] = {}

    def stopped(self, block: ControlBlock) -> None:
        """Keep the present values of a program's counters."""
        self._counted[block] = self._counters(block)

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Write the counts of a program to the recording."""
        if block not in self._counted:
            self._counted[block] = self._counters(block)
        counts, stats = self._counted.pop(block)
        if counts is not None:
            sink.counts(program.index, counts)
        if stats is not None:
            sink.stats(program.index, stats)
        calls = sum((counts or {}).values()) + sum(cell[1] for cell in (stats or {}).values())
        self._calls += calls
        # The cost among other calls is 0 if it was too small to be measured.
        self._ticks += calls * max(block.cost_call, block.cost_outer)

    def price(self, cost: Price, ns_per_tick: float, units: int) -> None:
        """Add the time that hooks added to the calls, as the agents have measured it."""
        del units
        if self._ticks:
            cost.call_ns = round(self._ticks / self._calls * ns_per_tick, 1)
            cost.calls_ns = (cost.calls_ns or 0) + round(self._ticks * ns_per_tick)

    def _counters(self, block: ControlBlock) -> tuple[dict[int, int] | None, Stats | None]:
        if self.way == COUNT:
            return block.counts(), None
        return None, block.stats()


def add_boundary(recording: RecordingFile, sums: ArcSums, names: RecordedNames) -> None:
    """Add the calls through slots. The caller is the function that contains the call site.

    If a call has no site, its image stands for the calling function, with "" as symbol. A call
    has no site if the callee uses its return address, if the table of sites was full, or if the
    site is outside of the image and several images lay there one after the other (a count has no
    time to tell which). If a function calls itself through slots, its time is counted for each of
    its calls. Calls of functions that report them themselves are in `sums` already.
    """
    reported = sums.callees
    rate = recording.clock.rate
    for program in recording.programs.all():
        ends = _ArcEnds(program, sums, names)
        hook_ns = program.fact("cost_outer") * rate
        for index, calls in recording.counts.get(program.index, {}).items():
            caller, callee = ends.of(index)
            if callee not in reported:
                sums.add(caller, callee, calls)
        for index, cell in recording.stats.get(program.index, {}).items():
            calls, returns, _, total, _, _, own = cell
            own_ns = None if own is None else round(own * rate)
            caller, callee = ends.of(index)
            if callee not in reported:
                doubt = round(returns * hook_ns) if hook_ns else None
                sums.add(caller, callee, calls, round(total * rate), own_ns, doubt, doubt)


def unseen_tables(programs: Iterable[RecordedProgram]) -> list[str]:
    """Return a note for each image whose method tables were not searched."""
    labels = {
        image.label
        for program in programs
        for image in program.images().values()
        if image.flags & IMAGE_METHODS_UNSEEN
    }
    return [
        f"{label}: method tables not hooked, no memory or another interpreter"
        for label in sorted(labels)
    ]


class _ArcEnds:
    """Finds the caller and the callee of each count of one program."""

    def __init__(self, program: RecordedProgram, sums: ArcSums, names: RecordedNames) -> None:
        self._program = program
        self._sums = sums
        self._names = names
        self._callees: dict[int, int] = {}

    def of(self, index: int) -> tuple[int, int]:
        """Return the indices of the caller and the callee in the profile."""
        number, addr = index, 0
        if index >= layout.MAX_SLOTS:
            number, addr = self._program.call_site(index - layout.MAX_SLOTS)
        slot = self._program.slot(number if number != NO_SLOT else layout.MAX_SLOTS)
        return self._caller(slot, addr), self._callee(slot)

    def _caller(self, slot: TracedSlot, addr: int) -> int:
        """Return the function whose call returns to `addr`, 0 if its image is not known."""
        image = slot.caller
        if image is None or not image.start < addr <= image.end:
            image = self._program.image_at(addr - 1) if addr else None
            if image is None or image.flags & IMAGE_CLOSED:
                return self._sums.image(slot.caller)
        return self._sums.function(self._names.of(image).at(addr - 1 - image.load_bias))

    def _callee(self, slot: TracedSlot) -> int:
        known = self._callees.get(slot.index)
        if known is None:
            if slot.kind == SLOT_METHOD and slot.callee is not None:
                function = self._names.method(slot.callee, slot.symbol, slot.function)
            else:
                function = self._names.named(slot.callee, slot.symbol, slot.version)
            known = self._callees[slot.index] = self._sums.function(function)
        return known
