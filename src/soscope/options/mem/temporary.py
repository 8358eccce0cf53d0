# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem temporary`."""

from __future__ import annotations

from soscope.options.mem.show import ShowOptions, make_verb, parse_show

VERB = make_verb(
    "temporary",
    "the native blocks that their thread freed before it made another one",
    "",
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ShowOptions:
    """Parse the words behind `soscope mem temporary`. Raises UsageError, or SystemExit for help."""
    return parse_show(VERB, arguments)
