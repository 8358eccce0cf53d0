# SPDX-License-Identifier: Apache-2.0
"""`soscope prof run`: run a command and profile its shared libraries."""

from __future__ import annotations

import os

from soscope.control import settings as session
from soscope.errors import UsageError
from soscope.instruments.prof.model import ProfSettings
from soscope.model.record import Record
from soscope.report.output import Form
from soscope.verbs.main import Early, Invocation, leave, note
from soscope.verbs.options import (
    LIST,
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    WHERE,
    Option,
    Values,
    Verb,
    check_form,
    follow_option,
    format_option,
    parse_buffer,
    parse_count,
    size_text,
    table,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.control.outcome import Outcome


def check_ring(values: Values) -> None:
    """Refuse options about single calls if these are not recorded."""
    logs = values.mode is not None and values.mode.name == LOG
    for name, value in (("--buffer", values.buffer), ("--when-full", values.when_full)):
        if value is not None and not logs:
            raise UsageError(f"{name} is about single calls", hint="add --mode log")


# Options that `soscope prof run` and `attach` share: what to profile, and how.

QUIET, COUNT, SAMPLE, TIME, LOG = "quiet", "count", "sample", "time", "log"
_INTERVAL = 64
_MOST_INTERVAL = 1 << 20
_MOST_HZ = 1000

_WHAT, _HOW = "what to profile", "how"


class ProfMode(Record):
    """How instrumented libraries are profiled: a mode, and the interval for SAMPLE.

    One call in `interval`, a power of two, is timed.
    """

    name: str
    interval: int = _INTERVAL


def parse_mode(text: str) -> ProfMode:
    """Return the value of --mode. Raises UsageError."""
    name, equals, number = text.partition("=")
    if name == SAMPLE and equals:
        interval = parse_count(number)
        if not 0 < interval <= _MOST_INTERVAL:
            raise UsageError(f"sample={number} is not between 1 and {_MOST_INTERVAL:,}")
        # The agent masks a counter. With another number it would time runs of calls, and too many.
        return ProfMode(SAMPLE, 1 << (interval - 1).bit_length())
    if text in (QUIET, COUNT, SAMPLE, TIME, LOG):
        return ProfMode(text)
    raise UsageError(f"'{text}' is not a mode", hint="quiet, count, sample, sample=N, time or log")


def parse_hz(text: str) -> int:
    """Return the value of --sample. Raises UsageError."""
    hz = parse_count(text)
    if not 0 < hz <= _MOST_HZ:
        raise UsageError(f"{text} is not between 1 and {_MOST_HZ:,} times a second")
    return hz


OPTIONS = table(
    _WHAT,
    Option(
        "-l",
        "--to",
        dest="images",
        kind=LIST,
        metavar="IMAGE",
        help="only these images, a pattern as in soscope trace -l: with --boundary calls into them,"
        " with --mode calls inside",
        aliases=("--image",),
    ),
    follow_option(_WHAT),
    _HOW,
    Option(
        "--mode",
        metavar="quiet|count|sample[=N]|time|log",
        convert=parse_mode,
        help="of libraries built with -pg, -mfentry, -finstrument-functions or "
        "-fpatchable-function-entry; quiet: nothing, which makes them faster; count: how often each"
        " function is called; sample: one call in N timed (64); time: each call timed; log: each"
        " call recorded by itself",
    ),
    Option(
        "--boundary",
        choices=(COUNT, TIME),
        help="calls from one image to another: how often, or for how long, too",
    ),
    Option(
        "--sample",
        metavar="HZ",
        convert=parse_hz,
        help="stacks of all threads, of C, C++ and Python: so often in a second that a thread runs",
    ),
    Option(
        "--buffer",
        metavar="SIZE",
        convert=parse_buffer,
        help="with --mode log: memory for calls that soscope has not taken yet "
        f"({size_text(session.DEFAULT_BUFFER)})",
    ),
    Option(
        "--when-full",
        metavar="POLICY",
        choices=session.WHEN_FULL,
        help="with --mode log, when that is full: block (threads wait; run does), drop (attach"
        " does), overwrite, stop",
    ),
)


VERB = Verb(
    "prof run",
    *OPTIONS,
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    Option("--json", group=WHERE, help="one JSON document, for programs"),
    format_option(WHERE),
    usage="soscope prof run [options] [--] COMMAND [ARGUMENT...]",
    short="""\
Run COMMAND. Show in which functions its time goes, and how often it calls functions of libraries.

  (no mode)         its own functions by samples, and its calls, in one table
  --boundary
  --mode
  --sample
  -l
  -f
  -o
  --json

  soscope prof run -- sqlite3 :memory: 'select 1'
""",
    description="""\
Run COMMAND. At its end, standard error shows in which functions its time went, and how often and
for how long functions of shared libraries were called. Without --mode, --boundary and --sample, one
table has its own functions, by samples, and its calls. With -o, nothing is printed, and a recording
is kept. COMMAND's own output, exit status and signals stay what they are.
""",
    epilog="""\
exit status: COMMAND's, or soscope dies of the signal that killed it; 125 if soscope
itself failed or was misused, 126 if COMMAND cannot be executed, 127 if it was not found.
""",
    runs_command=True,
)


# Records a profile and formats it, for the verbs that record profiles.


def settings_of(what: Values, command: list[str]) -> ProfSettings:
    """Return the settings. If no mode is given, it is chosen later."""
    settings = ProfSettings(command, "", images=what.images, follow=what.follow)
    if what.mode is not None:
        settings.mode, settings.interval = what.mode.name, what.mode.interval
    settings.boundary, settings.sample = what.boundary, what.sample
    settings.buffer, settings.when_full = what.buffer, what.when_full
    return settings


def profiled(
    settings: ProfSettings, path: str | None, form: Form, *, quiet: bool
) -> tuple[Outcome, str | None]:
    """Profile. Return the outcome, and the text to show.

    The text is None if `path` is a file for the recording.
    """
    from soscope.instruments.prof.run import run_prof
    from soscope.verbs.files import nameless

    if settings.mode is None and settings.boundary is None and settings.sample is None:
        from soscope.instruments.prof.choose import choose

        choose(settings)
    early = Early()
    tell = None if quiet else early
    descriptor = None if path is not None else nameless()
    try:
        settings.record = path or f"/proc/self/fd/{descriptor}"
        outcome = run_prof(settings, tell)
        early.finish()
        if settings.is_chosen and not quiet:
            from soscope.instruments.prof.choose import overlooked

            images = [image for program in outcome.programs for image in program.images]
            outcome.remarks += overlooked(settings, images)
        return outcome, None if descriptor is None else _shown(settings.record, form)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _shown(path: str, form: Form) -> str:
    from soscope.instruments.prof.report import profile_of
    from soscope.recording.reader import RecordingFile
    from soscope.report.prof import document, text

    with RecordingFile.open(path) as recording:
        profile = profile_of(recording, sample_lines=bool(form))  # text has no lines
    if form:
        return form.shaped(document(profile))
    shown = text(profile)
    return f"soscope: {shown}" if profile.is_chosen and profile.own_ns is not None else shown


def say_notes(outcome: Outcome, settings: ProfSettings) -> None:
    """Print what could not be profiled, and how a process was left."""
    from soscope.control.outcome import cost_lines
    from soscope.proc.status import NOT_HOOKED, in_full
    from soscope.report.words import attached_lines

    for line in (*outcome.remarks, *attached_lines(outcome)):
        if line not in outcome.told_by_report:
            note(line)
    for path, reason in outcome.untraced:
        if reason in NOT_HOOKED and settings.sample is not None:
            note(f"{path}: {NOT_HOOKED[reason]}")
        else:
            note(f"{path}: not profiled: {in_full(reason)}")
    for count, why in outcome.dropped:
        note(f"{count:,} events lost: {why}")
    if outcome.record is not None and not outcome.record.startswith("/proc/self/fd/"):
        # Else the profile has them.
        note(*outcome.executed.lines(), *cost_lines(outcome.cost, "profiling"))
        note(f"recording: {outcome.record}; show it: soscope prof report {outcome.record}")


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    values, command = invocation.read(VERB)
    VERB.check_target(command)
    check_ring(values)
    check_form(values.json, values.output, "prof")

    from soscope.report.output import STDERR, Output

    settings = settings_of(values, command)
    outcome, shown = profiled(settings, values.output, values.json, quiet=values.quiet)
    if shown is not None:
        Output(STDERR, "standard error").write(shown)
    if not values.quiet:
        say_notes(outcome, settings)
    return leave(outcome.status, outcome.signal)
