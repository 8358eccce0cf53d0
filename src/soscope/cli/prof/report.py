# SPDX-License-Identifier: Apache-2.0
"""`soscope prof report`: show a recorded profile."""

from __future__ import annotations

from soscope.cli.main import Invocation
from soscope.options.prof.report import PERCENT, ProfReportOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.model import Profile


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording is incomplete or printing failed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import show
    from soscope.cli.prof.reading import profile_at
    from soscope.instruments.prof.model import COMPLETE

    profile = profile_at(options.file, sample_lines=bool(options.json))  # text has no lines
    shown = _ways(profile, options) if options.is_tree else _rows(profile, options)
    was_shown = show(options.json.shaped(shown, options.file.path))
    return 0 if was_shown and profile.state == COMPLETE else 1


def _rows(profile: Profile, options: ProfReportOptions) -> str:
    if not options.json:
        from soscope.report.prof import text

        return text(profile, options.limit, options.by)
    from soscope.report.prof import document

    return document(profile, options.limit, options.by)


def _ways(profile: Profile, options: ProfReportOptions) -> str:
    from soscope.instruments.prof import views as contexts
    from soscope.instruments.prof.views import BY_THREAD
    from soscope.report import proftree

    pattern = options.callers or options.callees
    if pattern is None:
        way = proftree.TREE
        views = contexts.trees_of(profile, threads=options.by == BY_THREAD)
    else:
        from soscope.instruments.prof.views import matcher, nothing_called

        way = proftree.CALLEES if options.callers is None else proftree.CALLERS
        make = contexts.callees_of if options.callers is None else contexts.callers_of
        views = make(profile, matcher(pattern))
        if not views:
            raise nothing_called(profile, pattern)
    if options.json:
        return proftree.tree_document(
            profile, views, way, pattern, options.percent or 0, options.limit
        )
    percent = PERCENT if options.percent is None else options.percent
    return proftree.text(profile, views, percent, options.limit)
