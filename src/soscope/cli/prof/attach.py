# SPDX-License-Identifier: Apache-2.0
"""`soscope prof attach`: profile the shared libraries of a running process."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.prof.attach import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if soscope could not be removed from the process again.

    The status is also 1 if the result could not be written.
    """
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.cli.prof.profiled import profiled, say_notes, settings_of
    from soscope.cli.trace import end

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
