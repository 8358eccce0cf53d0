# SPDX-License-Identifier: Apache-2.0
"""The boundary instrument: counts or times of the calls through the slots of all images.

    images ─► hooks of COUNT or STATS        a program's block ─► counts or statistics by slot

The agent writes the numbers to the block, and soscope reads them there.
"""

from __future__ import annotations

from soscope.control.settings import Hooks, Instrument
from soscope.prototypes import load
from soscope.recording.sink import Sink
from soscope.select.filter import compile_selection
from soscope.wire import layout
from soscope.wire.block import ControlBlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.cost import Price
    from soscope.control.outcome import ProgramOutcome
    from soscope.model.call import Stats

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
