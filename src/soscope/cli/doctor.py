# SPDX-License-Identifier: Apache-2.0
"""`soscope doctor`: what works here, and with one process or file."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.doctor import parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0, 1 where something does not work, 3 or 4."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.cli.output import show
    from soscope.inspect.doctor.doctor import diagnose
    from soscope.report.doctor.json import document
    from soscope.report.doctor.text import text

    diagnosis = diagnose(pid=options.pid, path=options.path)
    if not show(options.json.shaped(document(diagnosis)) if options.json else text(diagnosis)):
        return 1
    return diagnosis.status
