# SPDX-License-Identifier: Apache-2.0
"""`soscope mem run`: run a command, and report the objects and blocks alive at its end."""

from __future__ import annotations

import os

from soscope.errors import UsageError
from soscope.proc.status import in_full
from soscope.report.output import Form
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    CommandVerb,
    Option,
    Values,
    check_form,
    follow_option,
    parse_size,
    table,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome
    from soscope.live.heap.memory import BlockPages
    from soscope.verbs.main import Early


EXACT, SAMPLE, COUNT = "exact", "sample", "count"
_DEFAULT_SAMPLE = 512 << 10  # bytes
_MOST_SAMPLE = 1 << 40

USAGE = "soscope mem run [options] [--] COMMAND [ARGUMENT...]"

SHORT = f"""\
usage: {USAGE}

Run COMMAND and record which objects and blocks it leaves alive, and where they were made.

  --objects
  --blocks
  -f
  -o
  --json

  soscope mem run --blocks -- sqlite3 :memory: 'select 1'

soscope mem run --help lists all options.
"""

DESCRIPTION = """\
Run COMMAND, and show on standard error at its end what is alive, and where it was made. With -o,
print nothing, and keep a recording. Without --objects and --blocks, objects are recorded if COMMAND
is an interpreter of Python or Ruby, and blocks otherwise. COMMAND's own output, exit status and
signals stay what they are.
"""

EPILOG = """\
exit status: COMMAND's, or soscope dies of the signal that killed it; 125 if soscope
itself failed or was misused, 126 if COMMAND cannot be executed, 127 if it was not found.
"""


class Mode:
    """How much is recorded. `name` is EXACT, SAMPLE or COUNT.

    `bytes` is the mean distance of samples.
    """

    __slots__ = ("bytes", "name")

    def __init__(self, name: str, size: int | None = None) -> None:
        self.name = name
        self.bytes = size


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

OPTIONS = table(
    DEBUG,
    _WHAT,
    Option("--objects", help="objects of Python or Ruby, by file, line and type"),
    BLOCKS,
    FOLLOW,
    MODE,
    AGGREGATE,
    _HOW,
    Option("--gc", dest="collect", help="collect garbage once at the end"),
    Option("--qualname", help="types with module and qualified name"),
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    JSON,
    FORMAT,
)


class MemRunOptions:
    """The parsed options of `soscope mem run`. If `objects` and `blocks` are False, it chooses."""

    __slots__ = (
        "aggregate",
        "blocks",
        "collect",
        "command",
        "debug",
        "follow",
        "json",
        "mode",
        "objects",
        "output",
        "qualname",
        "quiet",
    )

    def __init__(self, command: list[str], values: Values) -> None:
        self.command = command
        self.objects: bool = values.objects
        self.blocks: bool = values.blocks
        self.mode: Mode = values.mode or Mode(EXACT)
        self.aggregate: bool = values.aggregate
        self.follow: bool = values.follow
        self.collect: bool = values.collect
        self.qualname: bool = values.qualname
        self.output: str | None = values.output
        self.quiet: bool = values.quiet
        self.json: Form = values.json
        self.debug: bool = values.debug


VERB = CommandVerb(
    "mem run", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
)


def parse(arguments: list[str]) -> MemRunOptions:
    """Parse the words behind `soscope mem run`. Raises UsageError, or SystemExit for help."""
    values, command = VERB.read(arguments)
    if not command:
        raise UsageError("no command to run", hint=f"usage: {USAGE}")
    check_form(values.json, values.output, "mem")
    return MemRunOptions(command, values)


_STDERR = 2


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.verbs.files import nameless
    from soscope.verbs.main import Early, leave

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
        if line not in outcome.told_by_report:
            note(line)
    if options.output is None:
        return  # the report has it
    from soscope.control.outcome import cost_lines

    for path, reason in outcome.untraced:
        note(f"{path}: nothing was recorded: {in_full(reason)}")
    for count, why in outcome.dropped:
        note(f"{count:,} events lost: {why}")
    for line in (*outcome.executed.lines(), *cost_lines(outcome.cost, "recording")):
        note(line)
