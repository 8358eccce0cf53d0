# SPDX-License-Identifier: Apache-2.0
"""The patch instrument: replace functions by functions of the user's own."""

from __future__ import annotations

import os

from soscope.control.flight import CrashSink
from soscope.control.patch import Replacement, why
from soscope.control.session import Session
from soscope.control.settings import Instrument, SessionSettings
from soscope.errors import UsageError
from soscope.wire import layout, patches
from soscope.wire.patches import Caller, PatchTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome, ProgramOutcome
    from soscope.recording.sink import Sink
    from soscope.wire.block import ControlBlock


class PatchInstrument(Instrument):
    """Puts `wanted` in place before `main` runs, for calls by `callers` (all images if empty).

    `failure` tells which replacement could not be put in place, if the command did not run for
    that reason. `notes` tell of child programs in which nothing could be replaced, of symbols
    that no image calls, and of a command that died inside one of the libraries.
    """

    name = "patch"
    wants_signals = True

    def __init__(self, wanted: list[Replacement], callers: list[Caller]) -> None:
        """Make the table. Raises UsageError if it is too large."""
        table = PatchTable()
        try:
            for each in wanted:
                table.add(each.symbol, each.function, each.library, callers)
            table.pack()
        except ValueError as error:
            raise UsageError(str(error)) from error
        self.patches: PatchTable = table
        self.failure: str | None = None
        self.notes: list[str] = []
        self._has_taken = False
        self._crash = CrashSink()
        self._libraries = {os.path.basename(each.library) for each in wanted}

    def sinks(self) -> list[Sink]:
        """Return the sink that records fatal signals."""
        return [self._crash]

    def end(self, outcome: Outcome) -> None:
        """Add a note if the command died inside a replacement."""
        from signal import Signals  # slow to import, and most commands end well

        for frame in self._crash.stack(outcome.signal):
            if frame.partition("!")[0].partition("+")[0] in self._libraries:
                name = Signals(outcome.signal or 0).name
                self.notes.append(f"the command died of {name} inside a replacement: {frame}")
                return

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Store the result of the replacements in one program."""
        del sink
        is_first, self._has_taken = not self._has_taken, True
        _, size = block.section(layout.SEC_PATCHED)
        with block.view(layout.SEC_PATCHED, 0, size) as view:
            table = patches.read(view)
        if table.state == layout.PATCHES_FAILED:
            reason = why(table)
            if is_first:
                self.failure = f"cannot run {program.path}: {reason}"
            else:
                self.notes.append(f"{program.path}: nothing was replaced: {reason}")
        elif table.state == layout.PATCHES_WAITING:
            self.notes.append(f"{program.path}: nothing was replaced: it has no __libc_start_main")
        elif is_first:
            for patch in table.standing():
                if patch.left:
                    slots = f"{patch.left} slot{'s' if patch.left > 1 else ''} left"
                    self.notes.append(
                        f"{patch.symbol}: {slots} in the images of {program.path}:"
                        " the function's address is taken there"
                    )
                elif not patch.slots:
                    self.notes.append(f"no slot leads to {patch.symbol} in {program.path}")


def run(
    command: list[str], wanted: list[Replacement], callers: list[Caller], *, follow: bool
) -> tuple[Outcome, PatchInstrument]:
    """Run a command with `wanted` in place. Raises what `Session.run` raises."""
    instrument = PatchInstrument(wanted, callers)
    session = Session(SessionSettings(command, follow=follow), [instrument])
    return session.run(), instrument
