# SPDX-License-Identifier: Apache-2.0
"""`soscope mem trim`: let malloc of a process give back its free memory."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.mem.trim import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the result could not be written."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.control.interpreter import trim
    from soscope.report.mem import trim_document, trim_text

    trimmed = trim(options.pid)
    return (
        0
        if show(options.json.shaped(trim_document(trimmed)) if options.json else trim_text(trimmed))
        else 1
    )
