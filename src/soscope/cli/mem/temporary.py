# SPDX-License-Identifier: Apache-2.0
"""`soscope mem temporary`: show the native blocks that were freed at once."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.mem.temporary import parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.cli.mem.show import show
    from soscope.instruments.mem.model import TEMPORARY

    return show(options, TEMPORARY)
