# SPDX-License-Identifier: Apache-2.0
"""The prof instrument for code that reports its calls: -pg, -mfentry, -finstrument-functions."""

from __future__ import annotations

from soscope.control.instrument import Hooks, Instrument
from soscope.instruments.prof import tree
from soscope.instruments.prof.model import MODE_COUNT, MODE_QUIET, MODE_SAMPLE, MODE_TIME
from soscope.instruments.prof.reported import pack
from soscope.prototypes import load, table
from soscope.recording.clock import Clock
from soscope.recording.sink import Sink
from soscope.select.filter import ALL, compile_selection
from soscope.wire import layout, proflayout

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    MODE_QUIET: proflayout.PROF_QUIET,
    MODE_COUNT: proflayout.PROF_COUNT,
    MODE_SAMPLE: proflayout.PROF_SAMPLE,
    MODE_TIME: proflayout.PROF_TIME,
}


class ProfHooks(Hooks):
    """Hooks whose functions are no ordinary calls, which nobody else may have."""

    def _table(self, patterns: list[Automaton]) -> bytes:
        del patterns
        return table.build([], [], arguments=False, exits=False)


class _Clocks(Sink):
    """Hears what a tick is."""

    def __init__(self) -> None:
        self.known = Clock()

    def clock(self, tsc: int, realtime: int, monotonic: int) -> None:
        self.known.add(tsc, realtime, monotonic)


class ProgramCalls:
    """What one program reported: `program` has its images, `calls` are by their addresses."""

    __slots__ = ("calls", "program")

    def __init__(self, program: ProgramOutcome, calls: tree.ReportedCalls) -> None:
        self.program = program
        self.calls = calls


class InstrumentedCode(Instrument):
    """Counts or times the calls that instrumented images report, in the agent.

    `programs` are those that have ended, or that are observed no more, in their order.
    """

    name = "prof"

    def __init__(
        self,
        mode: str = MODE_TIME,
        images: list[str] | None = None,
        *,
        period: int = SAMPLE_PERIOD,
        tables: int = 48,
    ) -> None:
        """Take the images that `images` name as `--from` does; None: all of them.

        With MODE_SAMPLE, one call in `period` is timed; it is a power of two. So many threads at
        once have a `tables` each, less one; others are counted together, and not timed. Raises
        UsageError for a faulty pattern.
        """
        is_timed = mode in (MODE_SAMPLE, MODE_TIME)
        own, size = tree.own_memory(
            _MODES[mode], period if mode == MODE_SAMPLE else 1, tables=tables
        )
        self.mode = mode
        self.hooks: Hooks = ProfHooks(
            layout.INSTRUMENT_PROF,
            compile_selection(list(HOOKS), images or [ALL]),
            load(),
            entry_only=not is_timed,
            own_size=size,
            own=own,
        )
        self.programs: list[ProgramCalls] = []
        self._clocks = _Clocks()
        self._stopped: dict[int, tree.ReportedCalls | None] = {}  # by id of a block

    @property
    def ns_per_tick(self) -> float:
        """How long a tick is; 1.0 until that is known."""
        return self._clocks.known.rate

    def options(self) -> dict[str, object]:
        """Return how calls were recorded."""
        return {"mode": self.mode}

    def sinks(self) -> list[Sink]:
        """Return what hears of the clock."""
        return [self._clocks]

    def stopped(self, block: ControlBlock) -> None:
        """Take what there is now: its program goes on."""
        self._stopped[id(block)] = _read(block)

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Read what the processes of one program have reported."""
        key = id(block)
        calls = self._stopped.pop(key) if key in self._stopped else _read(block)
        if calls is not None:
            self.programs.append(ProgramCalls(program, calls))
            sink.reported(program.index, pack(calls))


def _read(block: ControlBlock) -> tree.ReportedCalls | None:
    with block.own(layout.INSTRUMENT_PROF) as own:
        return tree.read(own)
