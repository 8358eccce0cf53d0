# SPDX-License-Identifier: Apache-2.0
"""Calls that switch recording on or off. The agent's part is in gate.c.

Their symbols are hooked whatever the filter of the trace is, and shown only if it chooses them.
"""

from __future__ import annotations

from soscope.control.settings import Hooks, Instrument
from soscope.prototypes import load
from soscope.select.filter import compile_selection
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome, ProgramOutcome
    from soscope.recording.sink import Sink
    from soscope.wire.block import ControlBlock

ON, OFF = "--on", "--off"
ON_SYMBOL = "--on-symbol"  # for the flight recorder, which reads the count

_KINDS = {
    ON: layout.INSTRUMENT_OPEN,
    OFF: layout.INSTRUMENT_CLOSE,
    ON_SYMBOL: layout.INSTRUMENT_OPEN,
}


class TriggerInstrument(Instrument):
    """Opens gates (`option` is ON) or closes them (OFF) at the calls that `words` choose.

    With ON_SYMBOL calls are only counted, and no process has a gate. `calls` counts them. `words`
    are filter expressions, as for -e.
    """

    def __init__(self, option: str, words: list[str]) -> None:
        """Compile the words. Raises UsageError for a faulty word."""
        self.name = option
        self.calls = 0
        self._words = words
        self._kind = _KINDS[option]
        self._matched = False
        prototypes = load()
        self.selection = compile_selection(words, sets=prototypes.groups)
        self.hooks: Hooks = Hooks(
            self._kind,
            self.selection,
            prototypes,
            entry_only=True,
            own_size=layout.TRIGGER.size,
        )

    def options(self) -> dict[str, object]:
        """Return the words, for a recording."""
        return {self.name.lstrip("-").replace("-", "_"): self._words}

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Add the calls of the processes of one program."""
        del program, sink
        with block.own(self._kind) as own, own.cast("Q") as words:
            self.calls += words[0] if len(words) else 0
        self._matched |= any(block.rules_matched(self._kind))

    def end(self, outcome: Outcome) -> None:
        """Add a remark if there was no such call."""
        if not self.calls:
            shown = " ".join(f"{self.name} {word}" for word in self._words)
            why = "was never called" if self._matched else "matches no call that is hooked"
            outcome.remarks.append(f"{shown} {why}")
