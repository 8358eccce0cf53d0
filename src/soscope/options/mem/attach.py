# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem attach`."""

from __future__ import annotations

from soscope.options.mem.target import TargetOptions, make_verb, parse_target

VERB = make_verb(
    "attach",
    "Have a running process count its objects from now on.",
    """\
Have the interpreter of a running process take note of where each object is made. It goes on when
the command has returned, without soscope; soscope mem snapshot shows the objects, soscope mem
detach ends it.
""",
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> TargetOptions:
    """Parse the words behind `soscope mem attach`. Raises UsageError, or SystemExit for help."""
    return parse_target(VERB, arguments)
