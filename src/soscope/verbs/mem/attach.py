# SPDX-License-Identifier: Apache-2.0
"""`soscope mem attach`: make a running process count objects, or record its blocks."""

from __future__ import annotations

import os

from soscope.errors import UsageError
from soscope.report.output import Form
from soscope.verbs.main import Early, Invocation, note, show
from soscope.verbs.mem.run import AGGREGATE, BLOCKS, EXACT, FOLLOW, MODE, Mode
from soscope.verbs.options import (
    FORM,
    ONCE,
    Values,
    Verb,
    duration_option,
    output_option,
    pid_option,
    quiet_option,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome


_WHERE = "where to"


VERB = Verb(
    "mem attach",
    pid_option(about="it stands still for some milliseconds"),
    BLOCKS,
    FOLLOW,
    duration_option(
        BLOCKS.group, "record blocks for so long (60s, 5m); without it, until Ctrl-C", kind=ONCE
    ),
    MODE,
    AGGREGATE,
    output_option("REC", "record blocks in the file REC, in place of what it holds", group=_WHERE),
    quiet_option(_WHERE, "say nothing"),
    *FORM,
    usage="soscope mem attach -p PID [--blocks -o REC [options]]",
    short="""\
Have a running process count its objects from now on; or record its native blocks.

  -p
  --blocks
  --duration
  -q
  --json

  soscope mem attach -p 4711
  soscope mem attach -p 4711 --blocks -o run.sosr
""",
    description="""\
Without --blocks, the interpreter of a running process records from now on where each object is
made. The recording goes on when the command has returned, and needs no soscope. soscope mem
snapshot shows the objects, and soscope detach ends it.

With --blocks, soscope stays, and records in REC each native block and mapping that the process
makes from now on: until Ctrl-C, for --duration, or to the end of the process. Then it takes
everything out of the process again.
""",
    epilog="""\
exit status: 0 fine, 1 the process cannot be visited, 2 wrong usage, 3 not permitted, 4 no such
process.
""",
    needs_pid=True,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if soscope could not be removed from the process again.

    The status is also 1 if the result could not be written.
    """
    values, _ = invocation.read(VERB)
    if values.blocks and values.output is None:
        raise UsageError("no file to record blocks in: -o REC is missing")
    is_more = values.output or values.duration or values.mode or values.follow or values.aggregate
    if is_more and not values.blocks:
        raise UsageError("-o and what goes with it are for --blocks")
    if values.blocks:
        return _record(values, values.mode or Mode(EXACT))

    from soscope.instruments.mem.live import attach

    did_before, notes = attach(values.pid)
    if values.json and not values.quiet:
        from soscope.report.mem import attached

        said = attached(values.pid, notes, did_before=did_before)
        return 0 if show(values.json.shaped(said)) else 1
    if not values.quiet:
        since = "does so already" if did_before else "counts its objects from now on"
        note(f"process {values.pid} {since}: soscope mem snapshot -p {values.pid}")
        note(*notes)
    return 0


def _record(values: Values, mode: Mode) -> int:
    """Record blocks until the user ends it. Return the exit status."""
    from soscope.inspect.memory import divide
    from soscope.instruments.mem.run import MemSettings, run_mem
    from soscope.verbs.mem.run import COUNT
    from soscope.verbs.trace import end

    early = Early()
    settings = MemSettings(
        [],
        values.output,
        blocks=True,
        types=mode.name == COUNT,
        sample_bytes=mode.bytes,
        aggregate=values.aggregate,
        follow=values.follow,
        divide=divide,
        pid=values.pid,
        duration_ns=values.duration,
    )
    outcome = run_mem(settings, None if values.quiet else early)
    early.finish()
    if values.json and not values.quiet:
        from soscope.report.mem import recorded

        is_told = show(values.json.shaped(recorded(values.pid, values.output, outcome)))
        return end(outcome) if is_told else 1
    if not values.quiet:
        note(*outcome.executed.lines())
        say_notes(outcome)
        if outcome.record is not None:
            note(f"recording: {values.output}; show it: soscope mem report {values.output}")
    return end(outcome)


# Watch the blocks of a running process for a while, and show the ones that it has kept.


def show_blocks(pid: int, *, duration_ns: int, older_ns: int, json: Form, limit: int | None) -> int:
    """Watch process `pid`. Show its new live blocks that are older than `older_ns`.

    Return 0, or 1 if not everything could be printed or soscope could not be removed again.
    """
    from soscope.inspect.memory import divide
    from soscope.instruments.mem.report import report_of
    from soscope.instruments.mem.run import MemSettings, run_mem
    from soscope.recording.reader import RecordingFile
    from soscope.report.mem import document, text
    from soscope.verbs.files import nameless
    from soscope.verbs.trace import end

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
    was_shown = show(json.shaped((document if json else text)(report, limit)))
    say_notes(outcome)
    return end(outcome) if was_shown else 1


def say_notes(outcome: Outcome) -> None:
    """Print what could not be recorded, and how the process was left."""
    from soscope.control.outcome import cost_lines
    from soscope.report.words import attached_lines

    cost = cost_lines(outcome.cost, "recording")
    for line in (*outcome.remarks, *attached_lines(outcome), *cost):
        if line not in outcome.told_by_report:
            note(line)
    for count, why in outcome.dropped:
        note(f"{count:,} events lost: {why}")
