# SPDX-License-Identifier: Apache-2.0
"""The prof instrument for code that reports its calls: -pg, -mfentry, -finstrument-functions.

Functions that were built with -fpatchable-function-entry are patched to do the same.
"""

from __future__ import annotations

from soscope.control.settings import Hooks, Instrument
from soscope.instruments.prof import tree
from soscope.instruments.prof.model import (
    MODE_COUNT,
    MODE_LOG,
    MODE_QUIET,
    MODE_SAMPLE,
    MODE_TIME,
)
from soscope.instruments.prof.reported import pack
from soscope.prototypes import load, table
from soscope.recording.sink import Sink
from soscope.select.filter import ALL, compile_selection
from soscope.wire import headers, layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.cost import Price
    from soscope.control.outcome import ProgramOutcome
    from soscope.select.automaton import Automaton
    from soscope.wire.block import ControlBlock

HOOKS = (
    "mcount",
    "_mcount",
    "__fentry__",
    "__cyg_profile_func_enter",
    "__cyg_profile_func_exit",
    "__cyg_profile_func_enter_bare",
)
SAMPLE_PERIOD = 64

_MODES = {
    MODE_QUIET: headers.PROF_QUIET,
    MODE_COUNT: headers.PROF_COUNT,
    MODE_SAMPLE: headers.PROF_SAMPLE,
    MODE_TIME: headers.PROF_TIME,
    MODE_LOG: headers.PROF_LOG,
}


class ProfHooks(Hooks):
    """Hooks that no other instrument may have, as they are no ordinary functions."""

    def _table(self, patterns: list[Automaton]) -> bytes:
        del patterns
        return table.build([], [], arguments=False, exits=False)


class LoggingHooks(ProfHooks):
    """The same hooks, for recording each call by itself."""

    @property
    def needs_ring(self) -> bool:
        """See the base class."""
        return True


class InstrumentedCode(Instrument):
    """Counts, times or logs the calls that instrumented images report, in the agent."""

    name = "prof"

    def __init__(
        self,
        mode: str = MODE_TIME,
        images: list[str] | None = None,
        *,
        period: int = SAMPLE_PERIOD,
        tables: int = 48,
    ) -> None:
        """Record the images that `images` match, patterns as of `--from`, or all if it is None.

        With MODE_SAMPLE, one call in `period` is timed, which is a power of two. There are
        `tables` tables. Each thread has one of its own while there are some, and the last one
        counts the calls of all further threads together, without times. Raises UsageError for a
        faulty pattern.
        """
        is_timed = mode in (MODE_SAMPLE, MODE_TIME, MODE_LOG)
        own, size = tree.own_memory(
            _MODES[mode], period if mode == MODE_SAMPLE else 1, tables=tables
        )
        hooks = LoggingHooks if mode == MODE_LOG else ProfHooks
        self.hooks: Hooks = hooks(
            layout.INSTRUMENT_PROF,
            compile_selection(list(HOOKS), images or [ALL]),
            load(),
            entry_only=not is_timed,
            own_size=size,
            own=own,
        )
        self._stopped: dict[int, tree.ReportedCalls | None] = {}  # by id() of a block
        self._calls = 0
        self._ticks = 0  # ticks that hooks have added to the calls
        self._least = 0  # ticks that a hook adds to a recorded call

    def stopped(self, block: ControlBlock) -> None:
        """Read a program's calls now, as the program goes on."""
        self._stopped[id(block)] = _read(block)

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Read the calls that the processes of one program have reported."""
        key = id(block)
        calls = self._stopped.pop(key) if key in self._stopped else _read(block)
        if calls is not None:
            sink.reported(program.index, pack(calls))
            self._weigh(calls)

    def _weigh(self, calls: tree.ReportedCalls) -> None:
        for thread in calls.threads:
            for node in thread.nodes:
                self._calls += node.calls
                self._ticks += node.calls * calls.costs[node.hook][1]
        known = [outer for _, outer in calls.costs if outer]
        self._least = max(self._least, min(known, default=0))

    def price(self, cost: Price, ns_per_tick: float, units: int) -> None:
        """Add the time that hooks added to the calls, as the agents have measured it."""
        calls, ticks = self._calls, self._ticks
        if self.hooks.needs_ring:
            calls, ticks = units, units * self._least
        if ticks:
            cost.call_ns = round(ticks / calls * ns_per_tick, 1)
            cost.calls_ns = (cost.calls_ns or 0) + round(ticks * ns_per_tick)


def _read(block: ControlBlock) -> tree.ReportedCalls | None:
    with block.own(layout.INSTRUMENT_PROF) as own:
        return tree.read(own)
