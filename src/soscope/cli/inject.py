# SPDX-License-Identifier: Apache-2.0
"""`soscope inject`: run a command, let calls into shared libraries fail, and show those."""

from __future__ import annotations

import os

from soscope.cli.main import Invocation, note
from soscope.errors import SoscopeError
from soscope.options.sweep import SweepOptions
from soscope.verbs.inject import names_process, parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return the command's exit status, or die of its signal."""
    try:
        options = parse(invocation.words)
    except SoscopeError:
        invocation.wraps = not names_process(invocation.words)
        raise
    if isinstance(options, SweepOptions):
        from soscope.cli.sweep import sweep

        return sweep(options, invocation)
    settings = options.trace
    settings.debug |= invocation.debug
    invocation.debug = settings.debug
    invocation.wraps = not settings.pids

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.early import Early
    from soscope.cli.trace import end, say_notes
    from soscope.instruments.inject.instrument import InjectInstrument
    from soscope.instruments.trace.listener import Listener
    from soscope.instruments.trace.run import run_trace
    from soscope.report.output import Output
    from soscope.report.trace import json

    seed = options.seed
    if seed is None:
        seed = int.from_bytes(os.urandom(4), "little")
    inject = InjectInstrument(
        options.rules,
        seed,
        follow=settings.follow,
        string_limit=settings.string_limit,
        files=settings.prototypes,
    )
    early = Early()
    output = Output.open(options.output)
    listener = Listener()
    if options.prints:
        listener = json.make(output, options.display, inject.summary, form=options.json)
    try:
        tell = None if options.display.quiet else early
        outcome = run_trace(settings, listener, output, tell, inject)
    finally:
        output.close()
    if not output.is_given_up:
        early.finish()
        say_notes(outcome, [output], options.display)
        if not options.display.quiet:
            for line in (*json.rule_notes(inject.summary()), *inject.notes()):
                note(line)
    return end(outcome)
