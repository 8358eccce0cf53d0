# SPDX-License-Identifier: Apache-2.0
"""Tables made from recorded calls: the table of `-C`, and `-c --histogram`."""

from __future__ import annotations

from collections.abc import Callable

from soscope.cli import listeners
from soscope.cli.scratch import scratch_recording
from soscope.errors import SoscopeError
from soscope.instruments.trace.listener import Listener
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.instruments.trace.replay import Replay
from soscope.instruments.trace.run import run_trace
from soscope.instruments.trace.settings import MODE_SUMMARY
from soscope.options.trace import TraceOptions
from soscope.report.output import Form, Output
from soscope.report.trace.display import Display
from soscope.report.trace.tablesettings import TableSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.choice import Choice


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
        reduced = summarize(
            path,
            output,
            options.display,
            options.table,
            json=options.json,
            choice=options.choice,
        )
    except SoscopeError as error:
        outcome.remarks.append(f"no table of the calls: {error.message}")
        return
    if outcome.calls is None:
        outcome.calls = sum(
            cell[0] for program in reduced.programs for cell in (program.stats or {}).values()
        )


def summarize(
    path: str,
    output: Output,
    display: Display,
    table: TableSettings,
    *,
    json: Form,
    choice: Choice | None = None,
) -> TraceOutcome:
    """Write the table of a recording's calls. Return its outcome. Raises RecordingError.

    `choice` chooses the calls.
    """
    replay = Replay(path)
    choice = listeners.with_descriptors(choice, display, live=False)
    try:
        listener = listeners.make(MODE_SUMMARY, output, display, json=json, table=table)
        return replay.summarize(listener, choice=choice, durations=table.needs_durations)
    finally:
        replay.close()
