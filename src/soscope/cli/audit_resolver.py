# SPDX-License-Identifier: Apache-2.0
"""`soscope audit-resolver`: what lazy binding does to the registers of a call."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.audit_resolver import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if an argument is lost or no trampoline was found."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.inspect.audit.audit import UNSOUND, audit
    from soscope.report.audit_resolver import document, text

    audited = audit(options.path)
    if not show(
        options.json.shaped(document(audited)) if options.json else text(audited, why=options.why)
    ):
        return 1
    if audited.binds_lazily and audited.verdict is None:
        note("partial: no trampoline of lazy binding was found in this file")
        return 1
    return 1 if audited.verdict == UNSOUND else 0
