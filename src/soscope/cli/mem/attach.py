# SPDX-License-Identifier: Apache-2.0
"""`soscope mem attach`: have a running process count its objects."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.mem.attach import parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.instruments.mem.snapshot import attach

    did_before = attach(options.pid)
    if not options.quiet:
        since = "does so already" if did_before else "counts its objects from now on"
        note(f"process {options.pid} {since}: soscope mem snapshot -p {options.pid}")
    return 0
