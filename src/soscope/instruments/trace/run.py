# SPDX-License-Identifier: Apache-2.0
"""Run a trace for a verb, after a check of the files that it will write."""

from __future__ import annotations

import os

from soscope.control.command import Command
from soscope.control.session import Session
from soscope.control.settings import Instrument
from soscope.errors import UsageError
from soscope.instruments.trace.instrument import TraceInstrument
from soscope.instruments.trace.listener import Destination, Listener
from soscope.instruments.trace.settings import TraceSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from soscope.control.flight import Flight
    from soscope.instruments.trace.outcome import TraceOutcome


# Files that a trace must not write to: the program itself, or one file for two outputs.

File = tuple[int, int]  # device and inode


def check_files(settings: TraceSettings, written: Sequence[tuple[str, File | None]]) -> None:
    """Check the files that will be written, each with its option, before any is written.

    Raises UsageError, and LaunchError if the command does not exist.
    """
    programs: list[bytes]
    if settings.pids:
        programs = [b"/proc/%d/exe" % pid for pid in settings.pids]
    elif settings.remote is not None:
        programs = [os.fsencode(path) for path in settings.command]
    else:
        command = Command(settings.command)
        programs = [command.files[0], os.fsencode(command.program)]
    known: dict[File, str] = {}
    for option, file in written:
        if file is None:
            continue
        if file in known:
            raise UsageError(f"{known[file]} and {option} name the same file")
        if file in [file_at(path) for path in programs]:
            raise UsageError(f"{option} names the program that is to be traced")
        known[file] = option


def file_at(path: str | bytes) -> File | None:
    """Return device and inode of the file at a path, None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None  # opening it will report why
    return status.st_dev, status.st_ino


class TraceRun:
    """One trace. `session` observes, and `instrument` turns that into calls and counts."""

    __slots__ = ("_output", "instrument", "session")

    def __init__(
        self,
        settings: TraceSettings,
        listener: Listener,
        output: Destination | None = None,
        tell: Callable[[str], None] | None = None,
        shows: Instrument | None = None,
        flown: Callable[[Flight], object] = lambda _: None,
        beside: Sequence[Instrument] = (),
    ) -> None:
        """Prepare. `output` is where `listener` writes to, and `tell` takes immediate messages.

        `shows` is an instrument whose calls are shown in place of the trace's own. `flown` is
        called with each recording of the flight recorder. `beside` are instruments that hook
        nothing.

        Raises UsageError for a faulty filter, RecordingError for --record.
        """
        self._output = output or Destination()
        self.instrument = TraceInstrument(
            settings, listener, self._output, None if shows is None else shows.hooks
        )
        instruments: list[Instrument] = [*beside, *_triggers(settings), self.instrument]
        if shows is not None:
            instruments.insert(0, shows)
        self.session = Session(settings, instruments, tell, flown)

    def run(self) -> TraceOutcome:
        """Launch the command or attach to the process, trace it, and return the outcome."""
        instrument = self.instrument
        if self._output.file or instrument.settings.record is not None:
            check_files(
                instrument.settings, [("--record", self._recording()), ("-o", self._output.file)]
            )
        self._output.attend(self.session.attend)
        instrument.listener.begin(instrument.prototypes, instrument.selection)
        self.session.run()
        assert instrument.outcome is not None
        return instrument.outcome

    def _recording(self) -> tuple[int, int] | None:
        """Return device and inode of the recording's file, None if it does not exist yet."""
        writer, path = self.session.writer, self.instrument.settings.record
        if writer is not None:
            return writer.file

        return None if path is None else file_at(path)  # the flight recorder opens it later

    def stop(self, why: str) -> None:
        """Stop recording; the target goes on. `why` is a STOPPED_ constant or ""."""
        self.session.stop(why)


def _triggers(settings: TraceSettings) -> list[Instrument]:
    """Return the instruments that switch recording on and off at calls."""
    on_symbol = [] if settings.flight is None else settings.flight.on_symbol
    if not (settings.on or settings.off or on_symbol):
        return []
    from soscope.instruments.trace.instrument import OFF, ON, ON_SYMBOL, TriggerInstrument

    return [
        TriggerInstrument(option, words)
        for option, words in ((ON, settings.on), (OFF, settings.off), (ON_SYMBOL, on_symbol))
        if words
    ]


def run_trace(
    settings: TraceSettings,
    listener: Listener,
    output: Destination | None = None,
    tell: Callable[[str], None] | None = None,
    shows: Instrument | None = None,
) -> TraceOutcome:
    """Trace a command to its end. See `TraceRun` for the arguments.

    Raises UsageError, LaunchError, AgentError and RecordingError before the command runs.
    Afterwards it only raises what `listener` raises, and then the command goes on untraced.
    """
    return TraceRun(settings, listener, output, tell, shows).run()
