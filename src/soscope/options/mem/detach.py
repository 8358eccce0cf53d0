# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem detach`."""

from __future__ import annotations

from soscope.options.mem.target import TargetOptions, make_verb, parse_target

VERB = make_verb(
    "detach",
    "Have a process count its objects no more.",
    "Undo soscope mem attach: the process's interpreter is as it was.\n",
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> TargetOptions:
    """Parse the words behind `soscope mem detach`. Raises UsageError, or SystemExit for help."""
    return parse_target(VERB, arguments)
