# SPDX-License-Identifier: Apache-2.0
"""`soscope detach`: remove what a killed soscope has left in a process."""

from __future__ import annotations

from soscope.verbs.main import Invocation
from soscope.verbs.options import TargetOptions, make_verb, parse_target

DESCRIPTION = """\
A soscope that was killed leaves its hooks in the process that it traced; they cost little and do
no harm. detach gives every word that was changed its old value again. The process's threads stand
still for some milliseconds, and it goes on.
"""

EPILOG = """\
exit status: 0 fine, or nothing to undo (which is said), 1 not everything could be undone, or a
living soscope traces the process, 2 wrong usage, 3 not permitted, 4 no such process.
"""

VERB = make_verb(
    "detach", "Take out of a process what a killed soscope has left in it.", DESCRIPTION, EPILOG
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> TargetOptions:
    """Parse the words behind `soscope detach`. Raises UsageError, or SystemExit for help."""
    return parse_target(VERB, arguments)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be undone."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.control.detach import detach
    from soscope.report.detach import document, text
    from soscope.verbs.main import show

    removed = detach(options.pid)
    is_told = True
    if not options.quiet:
        is_told = show(options.json.shaped(document(removed)) if options.json else text(removed))
    if not is_told or any(taken.left or taken.kept for _, taken in removed.agents):
        return 1
    return 0
