# SPDX-License-Identifier: Apache-2.0
"""`soscope mem report`: show what a recording says of memory."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.mem.report import parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.cli.mem.show import show
    from soscope.instruments.mem.model import ALIVE

    return show(options, ALIVE)
