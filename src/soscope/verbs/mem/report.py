# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope mem report`."""

from __future__ import annotations

from soscope.options.mem.show import ShowOptions, make_verb, parse_show

VERB = make_verb(
    "report",
    "what was alive at the end",
    " A recording that ends in the middle is shown as far as it goes, and that is said.",
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ShowOptions:
    """Parse the words behind `soscope mem report`. Raises UsageError, or SystemExit for help."""
    return parse_show(VERB, arguments)
