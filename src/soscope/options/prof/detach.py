# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope prof detach`."""

from __future__ import annotations

from soscope.options.target import TargetOptions, make_verb, parse_target

DESCRIPTION = """\
The soscope prof attach that profiles the process ends as it does at Ctrl-C, and has shown or
written what it has recorded when this returns. Where it was killed, every word that it has changed
in the process gets its old value again, as soscope detach does it.
"""

EPILOG = """\
exit status: 0 fine, or nothing to undo (which is said), 1 not everything could be undone, or
soscope has started the process, 2 wrong usage, 3 not permitted, 4 no such process.
"""

VERB = make_verb("prof detach", "Have a running process profiled no more.", DESCRIPTION, EPILOG)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> TargetOptions:
    """Parse the words behind `soscope prof detach`. Raises UsageError, or SystemExit for help."""
    return parse_target(VERB, arguments)
