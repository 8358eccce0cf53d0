# SPDX-License-Identifier: Apache-2.0
"""`soscope prof detach`: stop profiling a running process."""

from __future__ import annotations

from soscope.verbs.main import Invocation, note
from soscope.verbs.options import TargetOptions, make_verb, parse_target

DESCRIPTION = """\
The soscope prof attach that profiles the process ends as it does at Ctrl-C, and has shown or
written what it has recorded when this returns. Where it was killed, every word that it has changed
in the process gets its old value again, as soscope detach does it.
"""

EPILOG = """\
exit status: 0 fine, or nothing to undo (which is said), 1 not everything could be undone, or
soscope has started the process, 2 wrong usage, 3 not permitted, 4 no such process.
"""

VERB = make_verb("prof detach", "Have a running process profiled no more.", DESCRIPTION, EPILOG)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> TargetOptions:
    """Parse the words behind `soscope prof detach`. Raises UsageError, or SystemExit for help."""
    return parse_target(VERB, arguments)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if something could not be undone."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.control.detach import detach, stop_owner
    from soscope.report.detach import document, text
    from soscope.verbs.main import show

    owner = stop_owner(options.pid)
    if owner is not None and not options.quiet:
        note(f"process {options.pid}: soscope {owner} has let go of it")
    removed = detach(options.pid)
    is_told = True
    if options.json and not options.quiet:
        is_told = show(options.json.shaped(document(removed)))
    elif owner is None and not options.quiet:
        is_told = show(text(removed))
    if not is_told or any(taken.left or taken.kept for _, taken in removed.agents):
        return 1
    return 0
