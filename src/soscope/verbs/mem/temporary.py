# SPDX-License-Identifier: Apache-2.0
"""`soscope mem temporary`: show native blocks that were freed before the next allocation."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.mem.temporary import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.mem.show import show
    from soscope.instruments.mem.model import TEMPORARY

    return show(options, TEMPORARY)
