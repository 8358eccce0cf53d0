# SPDX-License-Identifier: Apache-2.0
"""`soscope mem detach`: let a process stop counting its objects."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.mem.detach import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, also if there is nothing to undo; 1 if output fails."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.live import detach

    was_counting, notes = detach(options.pid)
    if options.json and not options.quiet:
        from soscope.cli.output import show
        from soscope.report.mem import detached

        said = detached(options.pid, was_counting, notes)
        return 0 if show(options.json.shaped(said)) else 1
    if not options.quiet:
        did = "counts its objects no more" if was_counting else "did not count its objects"
        note(f"process {options.pid} {did}")
        for line in notes:
            note(line)
    return 0
