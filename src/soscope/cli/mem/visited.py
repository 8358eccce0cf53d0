# SPDX-License-Identifier: Apache-2.0
"""Blocks of a running process, watched for a while: those that it has made and kept."""

from __future__ import annotations

import os

from soscope.cli.main import note
from soscope.report.output import Form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome


def show_blocks(pid: int, *, duration_ns: int, older_ns: int, json: Form, limit: int | None) -> int:
    """Watch process `pid`. Show its new live blocks that are older than `older_ns`.

    Return 0, or 1 if not everything could be printed or soscope could not be removed again.
    """
    from soscope.cli.nameless import nameless
    from soscope.cli.output import show
    from soscope.cli.trace import end
    from soscope.inspect.memory import divide
    from soscope.instruments.mem.report import report_of
    from soscope.instruments.mem.run import MemSettings, run_mem
    from soscope.recording.reader import RecordingFile

    descriptor = nameless()
    try:
        path = f"/proc/self/fd/{descriptor}"
        settings = MemSettings(
            [], path, blocks=True, aggregate=True, divide=divide, pid=pid, duration_ns=duration_ns
        )
        settings.older_ns = older_ns
        outcome = run_mem(settings, note)
        with RecordingFile.open(path) as recording:
            report = report_of(recording, older_ns=older_ns)
    finally:
        os.close(descriptor)
    if json:
        from soscope.report.mem import document

        said = document(report, limit)
    else:
        from soscope.report.mem import text

        said = text(report, limit)
    was_shown = show(json.shaped(said))
    say_notes(outcome)
    return end(outcome) if was_shown else 1


def say_notes(outcome: Outcome) -> None:
    """Print what could not be recorded, and how the process was left."""
    from soscope.control.cost import cost_lines
    from soscope.report.remarks import attached_lines

    cost = cost_lines(outcome.cost, "recording")
    for line in (*outcome.remarks, *attached_lines(outcome), *cost):
        note(line)
    for count, why in outcome.dropped:
        note(f"{count:,} events lost: {why}")
