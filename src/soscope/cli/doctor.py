# SPDX-License-Identifier: Apache-2.0
"""`soscope doctor`: what works on this system, and with one process or file."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.doctor import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, 1 if something does not work, 3 or 4."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.inspect.doctor.process import diagnose
    from soscope.report.doctor import document, text

    diagnosis = diagnose(pid=options.pid, path=options.path)
    if not show(options.json.shaped(document(diagnosis)) if options.json else text(diagnosis)):
        return 1
    return diagnosis.status
