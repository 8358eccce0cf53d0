# SPDX-License-Identifier: Apache-2.0
"""`soscope mem run`: run a command and report what it leaves alive, and where it was made."""

from __future__ import annotations

import os

from soscope.cli.main import Invocation, note
from soscope.proc.status import in_full
from soscope.verbs.mem.run import COUNT, MemRunOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.cli.early import Early
    from soscope.control.outcome import Outcome
    from soscope.live.heap.memory import BlockPages
    from soscope.report.output import Form

_STDERR = 2


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.early import Early
    from soscope.cli.exits import leave
    from soscope.cli.nameless import nameless

    early = Early()
    if options.output is not None:
        outcome = _record(options, options.output, early)
    else:
        descriptor = nameless()
        try:
            path = f"/proc/self/fd/{descriptor}"
            outcome = _record(options, path, early)
            _show(path, options.json)
        finally:
            os.close(descriptor)
    early.finish()
    if not options.quiet:
        _say_notes(outcome, options)
    return leave(outcome.status, outcome.signal)


def _record(options: MemRunOptions, path: str, tell: Early) -> Outcome:
    from soscope.instruments.mem.run import MemSettings, is_interpreter, run_mem

    objects, blocks = options.objects, options.blocks
    if not objects and not blocks:
        objects = is_interpreter(options.command)
        blocks = not objects
    settings = MemSettings(
        options.command,
        path,
        objects=objects,
        blocks=blocks,
        types=options.mode.name == COUNT,
        aggregate=options.aggregate,
        sample_bytes=options.mode.bytes,
        collect=options.collect,
        qualname=options.qualname,
        follow=options.follow,
        divide=_divide,
        prepare=_prepare,
    )
    outcome = run_mem(settings, None if options.quiet else tell)
    if options.output is not None:  # else the report has this line
        outcome.remarks += settings.refused
    return outcome


def _prepare() -> None:
    """Import the modules for `_divide` while the command runs, which would wait at its end."""
    import soscope.inspect.memory
    import soscope.live.images.space

    del soscope


def _divide(pid: int, objects: BlockPages | None) -> list[int] | None:
    from soscope.inspect.memory import divide  # slow to import, and only needed at the end

    return divide(pid, objects)


def _show(path: str, form: Form) -> None:
    """Print the report of a recording on standard error."""
    from soscope.instruments.mem.report import report_of
    from soscope.recording.reader import RecordingFile
    from soscope.report.output import STDERR, Output

    with RecordingFile.open(path) as recording:
        report = report_of(recording)
    if form:
        from soscope.report.mem import document

        said = form.shaped(document(report))
    else:
        from soscope.report.mem import text

        said = text(report)
    Output(STDERR, "standard error").write(said)


def _say_notes(outcome: Outcome, options: MemRunOptions) -> None:
    """Print what could not be recorded."""
    for line in outcome.remarks:
        note(line)
    if options.output is None:
        return  # the report has it
    from soscope.control.cost import cost_lines

    for path, reason in outcome.untraced:
        note(f"{path}: nothing was recorded: {in_full(reason)}")
    for count, why in outcome.dropped:
        note(f"{count:,} events lost: {why}")
    for line in (*outcome.executed.lines(), *cost_lines(outcome.cost, "recording")):
        note(line)
