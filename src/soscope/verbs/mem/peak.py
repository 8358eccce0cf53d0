# SPDX-License-Identifier: Apache-2.0
"""`soscope mem peak`: show the native blocks of the moment with most bytes in use."""

from __future__ import annotations

from soscope.verbs.main import Invocation
from soscope.verbs.mem.show import ShowOptions, make_verb, parse_show

VERB = make_verb(
    "peak",
    "the native blocks that were there when most bytes were",
    "",
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ShowOptions:
    """Parse the words behind `soscope mem peak`. Raises UsageError, or SystemExit for help."""
    return parse_show(VERB, arguments)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.model import PEAK
    from soscope.verbs.mem.show import show

    return show(options, PEAK)
