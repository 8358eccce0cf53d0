# SPDX-License-Identifier: Apache-2.0
"""`soscope mem temporary`: show native blocks that were freed before the next allocation."""

from __future__ import annotations

from soscope.verbs.main import Invocation
from soscope.verbs.mem.show import ShowOptions, make_verb, parse_show

VERB = make_verb(
    "temporary",
    "the native blocks that their thread freed before it made another one",
    "",
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> ShowOptions:
    """Parse the words behind `soscope mem temporary`. Raises UsageError, or SystemExit for help."""
    return parse_show(VERB, arguments)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.mem.model import TEMPORARY
    from soscope.verbs.mem.show import show

    return show(options, TEMPORARY)
