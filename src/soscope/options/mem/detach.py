# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem detach`."""

from __future__ import annotations

from soscope.options.target import TargetOptions, make_verb, parse_target

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
