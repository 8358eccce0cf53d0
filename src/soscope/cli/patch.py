# SPDX-License-Identifier: Apache-2.0
"""`soscope patch`: replace functions of a running process by the user's, and undo that."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.verbs.patch import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be put in place or undone."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.control.patch import patch, undo
    from soscope.instruments.patch.spec import check_replacements
    from soscope.report.patch import document, text

    if options.undo:
        patched = undo(options.pid, options.symbols)
    else:
        check_replacements(options.wanted, pid=options.pid, is_asked=options.check)
        patched = patch(options.pid, options.wanted, options.callers)
    is_told = True
    if not options.quiet:
        is_told = show(options.json.shaped(document(patched)) if options.json else text(patched))
    return 0 if is_told and not patched.left and not patched.waiting else 1
