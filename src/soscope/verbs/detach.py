# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope detach`."""

from __future__ import annotations

from soscope.options.target import TargetOptions, make_verb, parse_target

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
