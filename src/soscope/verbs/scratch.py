# SPDX-License-Identifier: Apache-2.0
"""Traces that are recorded first and shown later (`-C`, `--last`), and the live line."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager

from soscope.errors import RecordingError, SoscopeError
from soscope.instruments.trace.choice import Choice
from soscope.instruments.trace.instrument import TraceRun, run_trace
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.replay import Replay
from soscope.instruments.trace.settings import MODE_SUMMARY, MODE_TRACE
from soscope.report.output import STDERR, Form, Output
from soscope.report.trace.liveline import LiveLine, may_be_shown
from soscope.verbs import display as listeners
from soscope.verbs.options import ALWAYS, NEVER, duration_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soscope.control.flight import Flight
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.verbs.report import ReportOptions
    from soscope.verbs.trace import TraceOptions

# A trace with a line of progress on the terminal, if nothing else is written there.


def is_wanted(options: TraceOptions) -> bool:
    """Return whether the line is shown, because nothing else is written to the terminal."""
    settings = options.settings
    is_printed = options.prints and options.asked.output is None and settings.mode == MODE_TRACE
    if options.asked.live == NEVER or options.display.quiet or is_printed or not os.isatty(STDERR):
        return False
    return may_be_shown(settings.pids, anyway=options.asked.live == ALWAYS)


def run_with_line(
    options: TraceOptions,
    listener: Listener,
    output: Output,
    tell: Callable[[str], None] | None,
) -> TraceOutcome:
    """Trace as `run_trace` does, with the line of progress."""
    line = LiveLine()

    def tell_alone(text: str) -> None:
        line.clear()
        if tell is not None:
            tell(text)

    run = TraceRun(options.settings, listener, output, tell_alone, beside=[line])
    writer = run.session.writer
    if options.settings.wants_events:
        line.calls = lambda: run.instrument.calls
    elif writer is not None and options.settings.mode == MODE_TRACE:
        line.size = lambda: writer.size
    return run.run()


# A recording that is not kept: it is shown, then deleted.


@contextmanager
def scratch_recording(what: str) -> Iterator[str]:
    """Yield the path of a recording in a temporary directory, which is deleted afterwards.

    `what` describes its content in the message. Raises RecordingError if no such directory can be
    made.

    >>> import os
    >>> from soscope.verbs.scratch import scratch_recording
    >>> with scratch_recording("the calls") as path:
    ...     os.path.basename(path)
    'run.sosr'
    """
    try:
        directory = tempfile.TemporaryDirectory(prefix="soscope-")
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise RecordingError(f"no room for {what}: {reason}") from error
    with directory as place:
        yield os.path.join(place, "run.sosr")


# `trace --last`: each recording of the flight recorder, shown as `report` would show it.


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
            listener = listeners.make(
                replay.mode, self._output, options.display, json=options.asked.json
            )
            if not options.asked.json:
                self._output.write(f"--- {what} ---\n")
            replay.run(listener, self._is_heard, choice)
        finally:
            replay.close()

    def _is_heard(self) -> bool:
        if not self._run.session.attend() and self._may_be_ended:
            self._remarks.append("what was left to be printed is missing: a signal ended it")
            return False
        return self._output.is_open


# Tables made from recorded calls: the table of `-C`, and `-c --histogram`.


def run_with_table(
    options: TraceOptions,
    listener: Listener,
    output: Output,
    tell: Callable[[str], None] | None,
) -> TraceOutcome:
    """Trace as `run_trace` does, with a recording, and write the table of its calls at the end.

    Without --record the recording is in a temporary directory, and is deleted.
    """
    settings = options.settings
    if settings.record is not None:
        outcome = run_trace(settings, listener, output, tell)
        _add_table(settings.record, outcome, options, output)
        return outcome
    with scratch_recording("the calls of the table") as settings.record:
        outcome = run_trace(settings, listener, output, tell)
        outcome.record = None
        _add_table(settings.record, outcome, options, output)
    return outcome


def _add_table(path: str, outcome: TraceOutcome, options: TraceOptions, output: Output) -> None:
    """Write the table. Faults of the recording do not change how the trace ends."""
    try:
        reduced = summarize(path, output, options, options.asked.json)
    except SoscopeError as error:
        outcome.remarks.append(f"no table of the calls: {error.message}")
        return
    if outcome.calls is None:
        outcome.calls = sum(
            cell[0] for program in reduced.programs for cell in (program.stats or {}).values()
        )


def summarize(
    path: str, output: Output, options: TraceOptions | ReportOptions, form: Form
) -> TraceOutcome:
    """Write the table of a recording's calls. Return its outcome. Raises RecordingError."""
    replay = Replay(path)
    display, table = options.display, options.table
    choice = listeners.with_descriptors(options.choice, display, live=False)
    try:
        listener = listeners.make(MODE_SUMMARY, output, display, json=form, table=table)
        return replay.summarize(listener, choice=choice, durations=table.needs_durations)
    finally:
        replay.close()
