# SPDX-License-Identifier: Apache-2.0
"""`soscope mem report`: show a recording of memory."""

from __future__ import annotations

from soscope.verbs.main import Invocation
from soscope.verbs.mem.show import ShowOptions, make_verb, parse_show

VERB = make_verb(
    "report",
    "what was alive at the end",
    " A recording that ends in the middle is shown as far as it goes, and that is said.",
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ShowOptions:
    """Parse the words behind `soscope mem report`. Raises UsageError, or SystemExit for help."""
    return parse_show(VERB, arguments)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.model import ALIVE
    from soscope.verbs.mem.show import show

    return show(options, ALIVE)
