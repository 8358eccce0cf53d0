# SPDX-License-Identifier: Apache-2.0
"""`soscope prof attach`: profile the shared libraries of a running process."""

from __future__ import annotations

from soscope.verbs.main import Invocation, note, show
from soscope.verbs.options import (
    FORM,
    ONCE,
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    Verb,
    check_form,
    duration_option,
    pid_option,
)
from soscope.verbs.prof.run import OPTIONS as WHAT
from soscope.verbs.prof.run import check_ring

VERB = Verb(
    "prof attach",
    pid_option(about="it stands still for some milliseconds"),
    duration_option(WHAT[0].group, "for so long (60s, 5m); without it, until Ctrl-C", kind=ONCE),
    *WHAT,
    RECORDING_OUTPUT,
    RECORDING_QUIET,
    *FORM,
    usage="soscope prof attach [options] -p PID",
    short="""\
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
""",
    description="""\
Profile a running process: until Ctrl-C, for --duration, or to the end of the process. Then every
word that was changed in it is restored, and standard output shows in which functions its time went,
and how often and for how long functions of shared libraries were called. Without --mode, --boundary
and --sample, one table has its own functions, by samples, and its calls. With -o, nothing is
printed, and a recording is kept.
""",
    epilog="""\
exit status: 0 fine, 1 the process cannot be visited, or not all could be taken out of it again,
2 wrong usage, 3 not permitted, 4 no such process.
""",
    needs_pid=True,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if soscope could not be removed from the process again.

    The status is also 1 if the result could not be written.
    """
    values, _ = invocation.read(VERB)
    check_ring(values)
    check_form(values.json, values.output, "prof")

    from soscope.verbs.prof.run import profiled, say_notes, settings_of
    from soscope.verbs.trace import end

    settings = settings_of(values, [])
    settings.pid = values.pid
    settings.duration_ns = values.duration
    if not values.quiet:
        settings.begun = lambda: note(f"profiling process {values.pid}; Ctrl-C ends it")
    outcome, shown = profiled(settings, values.output, values.json, quiet=values.quiet)
    was_shown = shown is None or show(shown)
    if not values.quiet:
        say_notes(outcome, settings)
    return end(outcome) if was_shown else 1
