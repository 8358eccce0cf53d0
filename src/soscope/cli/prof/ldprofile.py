# SPDX-License-Identifier: Apache-2.0
"""`soscope prof ldprofile`: show a file written by LD_PROFILE."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.prof.ldprofile import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be written."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.verbs.prof.reading import read_foreign, show

    profile = read_foreign(options.path, options.image)
    is_written = show(profile, options.json, options.limit, options.output, not_over=options.path)
    return 0 if is_written else 1
