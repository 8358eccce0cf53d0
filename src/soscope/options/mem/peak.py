# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem peak`."""

from __future__ import annotations

from soscope.options.mem.show import ShowOptions, make_verb, parse_show

VERB = make_verb(
    "peak",
    "the native blocks that were there when most bytes were",
    "",
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ShowOptions:
    """Parse the words behind `soscope mem peak`. Raises UsageError, or SystemExit for help."""
    return parse_show(VERB, arguments)
