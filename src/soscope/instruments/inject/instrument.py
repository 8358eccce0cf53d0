# SPDX-License-Identifier: Apache-2.0
"""The inject instrument: it makes the calls that rules choose fail or wait.

Only the chosen calls are recorded. The records are the records of a trace, so listeners of a
trace get the injected calls, too.
"""

from __future__ import annotations

from soscope.control.settings import Hooks, Instrument
from soscope.instruments.inject.spec import CERTAIN, InjectRule
from soscope.instruments.inject.tables import Tables
from soscope.prototypes import load
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import ProgramOutcome
    from soscope.recording.sink import Sink
    from soscope.wire.block import ControlBlock


class InjectInstrument(Instrument):
    """Makes calls fail or wait by `rules`, where `seed` decides for rules that choose by chance.

    `calls` and `injected` hold, for each rule, how many calls it has seen and how many it has
    chosen.
    """

    name = "inject"
    wants_signals = True

    def __init__(
        self,
        rules: list[InjectRule],
        seed: int,
        *,
        follow: bool,
        string_limit: int,
        files: list[str] | None = None,
    ) -> None:
        """Compile the rules and read the declarations of functions in `files`.

        Raises UsageError if a rule can never work, and FormatError if a file has a fault.
        """
        self.rules = rules
        self.seed = seed
        prototypes = load()
        if files:
            from soscope.prototypes.sources import add_files

            add_files(prototypes, files)
        tables = Tables(rules, prototypes, seed, follow=follow)
        self.selection = tables.selection
        self.hooks: Hooks = Hooks(
            layout.INSTRUMENT_INJECT,
            tables.selection,
            prototypes,
            # a call that fails returns at once, and is recorded with its result
            entry_only=all(rule.returns for rule in rules),
            string_limit=string_limit,
            own_size=tables.own_size,
            own=tables.own,
        )
        self.calls = [0] * len(rules)
        self.injected = [0] * len(rules)
        self._without_place = self._without_point = 0
        self._is_errno_known = True

    @property
    def uses_chance(self) -> bool:
        """Return whether a rule chooses by chance, so that the seed matters."""
        return any(rule.chance < CERTAIN for rule in self.rules)

    def options(self) -> dict[str, object]:
        """Return the rules, for a recording."""
        return {"inject": self.summary()}

    def totals(self) -> dict[str, object]:
        """Return the rules and their counts, for the end of a recording."""
        return {"inject": self.summary()}

    def summary(self) -> dict[str, object]:
        """Return the rules, and how many calls each has seen and chosen so far."""
        rows = zip(self.rules, self.calls, self.injected, strict=True)
        return {
            "seed": self.seed,
            "rules": [
                {"rule": rule.text, "calls": calls, "injected": injected}
                for rule, calls, injected in rows
            ],
        }

    def stopping(self, block: ControlBlock) -> None:
        """Stop the injection, as calls that fail from here on would be in no trace."""
        block.command = layout.COMMAND_STOP

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Add the counts of the processes of one program."""
        with block.own(layout.INSTRUMENT_INJECT) as own:
            if len(own) < layout.INJECT.size:
                return
            used, lost = layout.INJECT.struct.unpack_from(own)[4:6]
            said = layout.INJECT.struct.unpack_from(block.given(layout.INSTRUMENT_INJECT))
            points, places, first = said[2], said[3], said[8]
            size = layout.INJECT_POINT.size
            if first + places * points * size > len(own):
                return
            self._without_place += max(0, used - places)
            self._without_point += lost
            for at in range(first, first + min(used, places) * points * size, size):
                calls, injected, rule, _ = layout.INJECT_POINT.struct.unpack_from(own, at)
                if 0 < rule <= len(self.rules):
                    self.calls[rule - 1] += calls
                    self.injected[rule - 1] += injected

    def notes(self) -> list[str]:
        """Return the notes that are printed at the end beside the rules."""
        lines = []
        if self.uses_chance:
            lines.append(f"--seed {self.seed} chooses the same calls again")
        if self._without_place:
            lines.append(f"calls of {self._without_place:,} processes are not among those counted")
        if self._without_point:
            lines.append(f"no room for {self._without_point:,} functions: nothing fails there")
        return lines
