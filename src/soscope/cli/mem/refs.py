# SPDX-License-Identifier: Apache-2.0
"""`soscope mem refs`: holders of the objects of one line."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.mem.refs import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if not everything could be printed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.instruments.mem.refs.model import Where
    from soscope.instruments.mem.refs.refs import refs
    from soscope.report.mem import refs_document, refs_text

    where = Where(options.file, options.line, options.type)
    report = refs(options.pid, where, samples=options.samples)
    said = refs_document if options.json else refs_text
    return 0 if show(options.json.shaped(said(report, options.limit))) else 1
