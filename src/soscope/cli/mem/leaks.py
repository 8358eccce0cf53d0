# SPDX-License-Identifier: Apache-2.0
"""`soscope mem leaks`: show the native blocks that were never freed."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.mem.leaks import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something is missing."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    if options.pid is not None:
        from soscope.cli.mem.visited import show_blocks

        return show_blocks(
            options.pid,
            duration_ns=options.duration,
            older_ns=options.older,
            json=options.json,
            limit=options.limit,
        )

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.mem.show import show
    from soscope.instruments.mem.model import ALIVE

    return show(options, ALIVE, older_ns=options.older)
