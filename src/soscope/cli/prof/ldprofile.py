# SPDX-License-Identifier: Apache-2.0
"""`soscope prof ldprofile`: show a file that LD_PROFILE has written."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.prof.ldprofile import parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.cli.output import finish
    from soscope.cli.prof.foreign import read_foreign, shown
    from soscope.report.output import STDOUT, Output

    output = Output.open(options.output, STDOUT)
    output.write(shown(read_foreign(options.path, options.image), options.json))
    return 0 if finish(output) else 1
