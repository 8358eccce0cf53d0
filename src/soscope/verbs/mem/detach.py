# SPDX-License-Identifier: Apache-2.0
"""`soscope mem detach`: let a process stop counting its objects."""

from __future__ import annotations

from soscope.verbs.main import Invocation, note
from soscope.verbs.options import TargetOptions, make_verb, parse_target

DESCRIPTION = """\
Undo soscope mem attach: the process's interpreter is as it was.
"""

EPILOG = """\
exit status: 0 fine, 1 the process cannot be visited, 2 wrong usage, 3 not permitted, 4 no such
process.
"""

VERB = make_verb("mem detach", "Have a process count its objects no more.", DESCRIPTION, EPILOG)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> TargetOptions:
    """Parse the words behind `soscope mem detach`. Raises UsageError, or SystemExit for help."""
    return parse_target(VERB, arguments)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, also if there is nothing to undo; 1 if output fails."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.live import detach

    was_counting, notes = detach(options.pid)
    if options.json and not options.quiet:
        from soscope.report.mem import detached
        from soscope.verbs.main import show

        said = detached(options.pid, was_counting, notes)
        return 0 if show(options.json.shaped(said)) else 1
    if not options.quiet:
        did = "counts its objects no more" if was_counting else "did not count its objects"
        note(f"process {options.pid} {did}")
        for line in notes:
            note(line)
    return 0
