# SPDX-License-Identifier: Apache-2.0
"""`soscope mem attach`: let a running process count its objects, or record its blocks."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.verbs.mem.attach import MemAttachOptions, parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if soscope could not be removed from the process again.

    The status is also 1 if the result could not be written.
    """
    options = parse(invocation.words)
    invocation.debug |= options.debug
    if options.output is not None:
        return _record(options, options.output)

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.live import attach

    did_before, notes = attach(options.pid)
    if options.json and not options.quiet:
        from soscope.cli.output import show
        from soscope.report.mem import attached

        said = attached(options.pid, notes, did_before=did_before)
        return 0 if show(options.json.shaped(said)) else 1
    if not options.quiet:
        since = "does so already" if did_before else "counts its objects from now on"
        note(f"process {options.pid} {since}: soscope mem snapshot -p {options.pid}")
        for line in notes:
            note(line)
    return 0


def _record(options: MemAttachOptions, path: str) -> int:
    """Record blocks until the user ends it. Return the exit status."""
    from soscope.cli.early import Early
    from soscope.cli.mem.visited import say_notes
    from soscope.cli.trace import end
    from soscope.inspect.memory import divide
    from soscope.instruments.mem.run import MemSettings, run_mem
    from soscope.verbs.mem.run import COUNT

    early = Early()
    settings = MemSettings(
        [],
        path,
        blocks=True,
        types=options.mode.name == COUNT,
        sample_bytes=options.mode.bytes,
        aggregate=options.aggregate,
        follow=options.follow,
        divide=divide,
        pid=options.pid,
        duration_ns=options.duration,
    )
    outcome = run_mem(settings, None if options.quiet else early)
    early.finish()
    if options.json and not options.quiet:
        from soscope.cli.output import show
        from soscope.report.mem import recorded

        is_told = show(options.json.shaped(recorded(options.pid, path, outcome)))
        return end(outcome) if is_told else 1
    if not options.quiet:
        for line in outcome.executed.lines():  # else the report has this line
            note(line)
        say_notes(outcome)
        if outcome.record is not None:
            note(f"recording: {path}; show it: soscope mem report {path}")
    return end(outcome)
