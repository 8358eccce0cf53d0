# SPDX-License-Identifier: Apache-2.0
"""`soscope prof attach`: profile the shared libraries of a running process."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    ONCE,
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    Values,
    Verb,
    check_form,
    duration_option,
    pid_option,
    the_pid,
)
from soscope.verbs.prof.run import OPTIONS as WHAT
from soscope.verbs.prof.run import What

USAGE = "soscope prof attach [options] -p PID"

SHORT = f"""\
usage: {USAGE}

Show in which functions a running process spends its time, and how often functions of libraries
are called.

  -p
  --duration
  (no mode)        its own functions by samples, and its calls, in one table
  --boundary
  --mode
  --sample
  -o
  --json

  soscope prof attach -p 4711 --duration 10s

soscope prof attach --help lists all options.
"""

DESCRIPTION = """\
Profile a running process: until Ctrl-C, for --duration, or to the end of the process. Then every
word that was changed in it is restored, and standard output shows in which functions its time went,
and how often and for how long functions of shared libraries were called. Without --mode, --boundary
and --sample, one table has its own functions, by samples, and its calls. With -o, nothing is
printed, and a recording is kept.
"""

EPILOG = """\
exit status: 0 fine, 1 the process cannot be visited, or not all could be taken out of it again,
2 wrong usage, 3 not permitted, 4 no such process.
"""

OPTIONS = [
    DEBUG,
    pid_option(about="it stands still for some milliseconds"),
    duration_option(WHAT[0].group, "for so long (60s, 5m); without it, until Ctrl-C", kind=ONCE),
    *WHAT,
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    JSON,
    FORMAT,
]

VERB = Verb(
    "prof attach", OPTIONS, usage=USAGE, short=SHORT, description=DESCRIPTION, epilog=EPILOG
)


class ProfAttachOptions:
    """The parsed options of `soscope prof attach`."""

    __slots__ = ("debug", "duration", "json", "output", "pid", "quiet", "what")

    def __init__(self, values: Values) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.pid = the_pid(values, USAGE)
        self.what = What(values)
        self.duration: int | None = values.duration
        self.output: str | None = values.output
        self.quiet: bool = values.quiet
        self.json: Form = values.json
        self.debug: bool = values.debug
        check_form(self.json, self.output, "prof")


def parse(arguments: list[str]) -> ProfAttachOptions:
    """Parse the words behind `soscope prof attach`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    return ProfAttachOptions(values)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if soscope could not be removed from the process again.

    The status is also 1 if the result could not be written.
    """
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.verbs.main import show
    from soscope.verbs.prof.run import profiled, say_notes, settings_of
    from soscope.verbs.trace import end

    settings = settings_of(options.what, [])
    settings.pid = options.pid
    settings.duration_ns = options.duration
    if not options.quiet:
        settings.begun = lambda: note(f"profiling process {options.pid}; Ctrl-C ends it")
    outcome, shown = profiled(settings, options.output, options.json, quiet=options.quiet)
    was_shown = shown is None or show(shown)
    if not options.quiet:
        say_notes(outcome, settings)
    return end(outcome) if was_shown else 1
