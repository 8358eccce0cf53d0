# SPDX-License-Identifier: Apache-2.0
"""`soscope prof check`: how a library can be profiled."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.prof.check import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if a part of the file cannot be read or printing failed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.instruments.prof.check import look_at
    from soscope.report.prof import check_document, check_text

    library = look_at(options.file)
    make = check_document if options.json else check_text
    said = options.json.shaped(make(library))
    for why in library.mapped.partial:
        note(f"{options.file}: partial: {why}")
    return 0 if show(said) and not library.mapped.partial else 1
