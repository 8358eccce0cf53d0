# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem leaks`."""

from __future__ import annotations

from soscope.options.mem.show import ShowOptions, make_verb, parse_show

VERB = make_verb(
    "leaks",
    "the native blocks that were alive at the end",
    "",
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ShowOptions:
    """Parse the words behind `soscope mem leaks`. Raises UsageError, or SystemExit for help."""
    return parse_show(VERB, arguments)
