# SPDX-License-Identifier: Apache-2.0
"""`soscope mem report`: show a recording of memory."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.verbs.mem.report import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.mem.show import show
    from soscope.instruments.mem.model import ALIVE

    return show(options, ALIVE)
