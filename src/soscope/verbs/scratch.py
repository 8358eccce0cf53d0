# SPDX-License-Identifier: Apache-2.0
"""`trace --last`: each recording of the flight recorder, shown as `report` would show it."""

from __future__ import annotations

import os
from collections.abc import Callable

from soscope.cli import listeners
from soscope.cli.scratch import scratch_recording
from soscope.control.flight import Flight
from soscope.errors import SoscopeError
from soscope.instruments.trace.choice import Choice
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.instruments.trace.replay import Replay
from soscope.instruments.trace.run import TraceRun
from soscope.options.trace import TraceOptions
from soscope.options.units import duration_text
from soscope.report.output import Output


def run_with_flights(
    options: TraceOptions, output: Output, tell: Callable[[str], None] | None
) -> TraceOutcome:
    """Trace to the end. Write the contents of the rings whenever something happens.

    Without --record the recording is in a temporary directory, and is shown. Raises as
    `run_trace` does.
    """
    settings = options.settings
    if settings.record is not None:
        return _Flights(options, output, tell, keeps=True).run()
    with scratch_recording("the calls") as settings.record:
        return _Flights(options, output, tell, keeps=False).run()


class _Flights:
    """Reports and shows each recording. With `keeps`, the files stay."""

    def __init__(
        self,
        options: TraceOptions,
        output: Output,
        tell: Callable[[str], None] | None,
        *,
        keeps: bool,
    ) -> None:
        self._options = options
        self._output = output
        self._tell = tell
        self._keeps = keeps
        self._remarks: list[str] = []
        self._may_be_ended = True  # a signal may end it while calls are shown
        self._run = TraceRun(options.settings, Listener(), output, tell, flown=self._flown)

    def run(self) -> TraceOutcome:
        outcome = self._run.run()
        outcome.remarks += self._remarks
        return outcome

    def _flown(self, flight: Flight) -> None:
        asked = self._options.settings.flight
        assert asked is not None
        what = f"the last {duration_text(asked.last_ns)} before {flight.why}"
        if self._options.prints:
            try:
                self._show(flight.path, what, asked.last_ns)
            except SoscopeError as error:
                self._remarks.append(f"{what}: {error.message}")
        if self._tell is not None and (self._keeps or flight.held_ns is not None):
            held = ""
            if flight.held_ns is not None:
                held = f"; the buffer held {duration_text(flight.held_ns)} of it (--buffer)"
            where = f"recording: {flight.path}, " if self._keeps else ""
            self._tell(f"{where}{what}{held}")
        if not self._keeps:
            os.unlink(flight.path)

    def _show(self, path: str, what: str, last_ns: int) -> None:
        """Print the calls, and attend to the target meanwhile."""
        options = self._options
        choice = listeners.with_descriptors(options.choice, options.display, live=True)
        choice = choice or Choice()
        choice.last_ns = last_ns
        # Even if a signal has ended the trace, the recording that it asked for is shown.
        self._may_be_ended = self._run.session.attend()
        replay = Replay(path, options.settings.prototypes)
        try:
            listener = listeners.make(replay.mode, self._output, options.display, json=options.json)
            if not options.json:
                self._output.write(f"--- {what} ---\n")
            replay.run(listener, self._is_heard, choice)
        finally:
            replay.close()

    def _is_heard(self) -> bool:
        if not self._run.session.attend() and self._may_be_ended:
            self._remarks.append("what was left to be printed is missing: a signal ended it")
            return False
        return self._output.is_open
