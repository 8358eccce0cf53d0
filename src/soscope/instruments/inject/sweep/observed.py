# SPDX-License-Identifier: Apache-2.0
"""A run without injection, which finds the call sites of the chosen functions."""

from __future__ import annotations

from soscope.control.settings import Hooks, Instrument
from soscope.instruments.inject.sweep.site import SeenSite
from soscope.prototypes import load
from soscope.recording.sink import Sink
from soscope.recording.units import UNIT, pieces_of
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import ProgramOutcome
    from soscope.select.filter import Selection
    from soscope.wire.block import ControlBlock

_KINDS = (layout.UNIT_ENTRY, layout.UNIT_ENTRY_ONLY)
_SLOT = (1 << 28) - 1  # the slot's number in a unit's first word


class _CallsSink(Sink):
    """Keeps where each slot is called from: {(first word, return address)} for each program."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: dict[int, set[tuple[int, int]]] = {}

    def chunk(self, program: int, header: bytes, first: int, units: bytes) -> None:
        """Process units of one chunk."""
        del header, first
        self.calls.setdefault(program, set()).update(
            {
                (commit, addr)
                for commit, _, _, addr, _ in UNIT.iter_unpack(units)
                if commit >> 28 in _KINDS
            }
        )

    def chunks(self, program: int, data: bytes | memoryview) -> None:
        """Process whole chunks."""
        for piece in pieces_of(program, data):
            self.chunk(program, b"", 0, piece.units)


class SitesInstrument(Instrument):
    """Collects the call sites of chosen functions.

    `sites` are the call sites. `jumped` are pairs (function, image) of calls that are jumps. Such
    a call returns into another image than the image whose slot it goes through, so no rule can
    describe it.
    """

    name = "sites"
    wants_signals = True  # the same as in the runs with injection
    wants_threads = True

    def __init__(self, selection: Selection) -> None:
        self.hooks: Hooks = Hooks(layout.INSTRUMENT_TRACE, selection, load(), entry_only=True)
        self.sites: set[SeenSite] = set()
        self.jumped: set[tuple[str, str]] = set()
        self._sink = _CallsSink()

    def sinks(self) -> list[Sink]:
        """Return the sink that collects the calls."""
        return [self._sink]

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Add the call sites of one program, with the names of their functions."""
        del sink
        addrs: dict[int, set[int]] = {}
        for commit, addr in self._sink.calls.pop(program.index, ()):
            addrs.setdefault(commit & _SLOT, set()).add(addr)
        for slot in block.slots(program.index, program.images, chosen=addrs):
            caller = slot.caller
            if caller is None:
                continue
            for addr in addrs.get(slot.index, ()):
                if caller.start <= addr <= caller.end:
                    vaddr = addr - caller.load_bias
                    self.sites.add(SeenSite(slot.symbol, caller.name, caller.path, vaddr))
                else:
                    self.jumped.add((slot.symbol, caller.name))
