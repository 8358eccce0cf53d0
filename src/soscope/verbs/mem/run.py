# SPDX-License-Identifier: Apache-2.0
"""`soscope mem run`: run a command, and report the objects and blocks alive at its end."""

from __future__ import annotations

import os

from soscope.errors import UsageError
from soscope.model.record import Record
from soscope.proc.status import in_full
from soscope.report.output import Form
from soscope.verbs.main import Early, Invocation, leave, note
from soscope.verbs.options import (
    FORM,
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    Option,
    Values,
    Verb,
    check_form,
    follow_option,
    parse_size,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome
    from soscope.live.heap.memory import BlockPages


EXACT, SAMPLE, COUNT = "exact", "sample", "count"
_DEFAULT_SAMPLE = 512 << 10  # bytes
_MOST_SAMPLE = 1 << 40


class Mode(Record):
    """How much is recorded. `name` is EXACT, SAMPLE or COUNT.

    `bytes` is the mean distance of samples.
    """

    name: str
    bytes: int | None = None


def parse_mode(text: str) -> Mode:
    """Return the value of --mode. Raises UsageError."""
    name, equals, size = text.partition("=")
    if name == SAMPLE:
        mean = parse_size(size) if equals else _DEFAULT_SAMPLE
        if mean > _MOST_SAMPLE:
            raise UsageError(f"'{size}' is no possible size", hint="at most 1TiB")
        return Mode(SAMPLE, mean)
    if text in (EXACT, COUNT):
        return Mode(text)
    raise UsageError(f"'{text}' is not a mode", hint="exact, sample, sample=SIZE or count")


_WHAT, _HOW = "what to record", "how"

BLOCKS = Option("--blocks", group=_WHAT, help="native blocks and mappings, by stack")
FOLLOW = follow_option(_WHAT)
MODE = Option(
    "--mode",
    metavar="exact|sample[=SIZE]|count",
    convert=parse_mode,
    group=_HOW,
    help="exact: each one; sample: one in SIZE bytes (512KiB); count: only numbers",
)
AGGREGATE = Option(
    "--aggregate",
    group=_HOW,
    help="sums by stack in the place of each block: a recording that does not grow",
)


VERB = Verb(
    "mem run",
    _WHAT,
    Option("--objects", help="objects of Python or Ruby, by file, line and type"),
    BLOCKS,
    FOLLOW,
    MODE,
    AGGREGATE,
    _HOW,
    Option("--gc", help="collect garbage once at the end"),
    Option("--qualname", help="types with module and qualified name"),
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    *FORM,
    usage="soscope mem run [options] [--] COMMAND [ARGUMENT...]",
    short="""\
Run COMMAND and record which objects and blocks it leaves alive, and where they were made.

  --objects
  --blocks
  -f
  -o
  --json

  soscope mem run --blocks -- sqlite3 :memory: 'select 1'
""",
    description="""\
Run COMMAND, and show on standard error at its end what is alive, and where it was made. With -o,
print nothing, and keep a recording. Without --objects and --blocks, objects are recorded if COMMAND
is an interpreter of Python or Ruby, and blocks otherwise. COMMAND's own output, exit status and
signals stay what they are.
""",
    epilog="""\
exit status: COMMAND's, or soscope dies of the signal that killed it; 125 if soscope
itself failed or was misused, 126 if COMMAND cannot be executed, 127 if it was not found.
""",
    runs_command=True,
)


_STDERR = 2


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    values, command = invocation.read(VERB)
    VERB.check_target(command)
    check_form(values.json, values.output, "mem")

    from soscope.verbs.files import nameless

    early = Early()
    if values.output is not None:
        outcome = _record(command, values, values.output, early)
    else:
        descriptor = nameless()
        try:
            path = f"/proc/self/fd/{descriptor}"
            outcome = _record(command, values, path, early)
            _show(path, values.json)
        finally:
            os.close(descriptor)
    early.finish()
    if not values.quiet:
        _say_notes(outcome, values)
    return leave(outcome.status, outcome.signal)


def _record(command: list[str], values: Values, path: str, tell: Early) -> Outcome:
    from soscope.instruments.mem.run import MemSettings, is_interpreter, run_mem

    mode: Mode = values.mode or Mode(EXACT)
    objects, blocks = values.objects, values.blocks
    if not objects and not blocks:
        objects = is_interpreter(command)
        blocks = not objects
    settings = MemSettings(
        command,
        path,
        objects=objects,
        blocks=blocks,
        types=mode.name == COUNT,
        aggregate=values.aggregate,
        sample_bytes=mode.bytes,
        collect=values.gc,
        qualname=values.qualname,
        follow=values.follow,
        divide=_divide,
        prepare=_prepare,
    )
    outcome = run_mem(settings, None if values.quiet else tell)
    if values.output is not None:  # else the report has this line
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
    from soscope.report.mem import document, text
    from soscope.report.output import STDERR, Output

    with RecordingFile.open(path) as recording:
        report = report_of(recording)
    said = form.shaped((document if form else text)(report))
    Output(STDERR, "standard error").write(said)


def _say_notes(outcome: Outcome, values: Values) -> None:
    """Print what could not be recorded."""
    for line in outcome.remarks:
        if line not in outcome.told_by_report:
            note(line)
    if values.output is None:
        return  # the report has it
    from soscope.control.outcome import cost_lines

    for path, reason in outcome.untraced:
        note(f"{path}: nothing was recorded: {in_full(reason)}")
    for count, why in outcome.dropped:
        note(f"{count:,} events lost: {why}")
    note(*outcome.executed.lines(), *cost_lines(outcome.cost, "recording"))
