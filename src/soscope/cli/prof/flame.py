# SPDX-License-Identifier: Apache-2.0
"""`soscope prof flame`: draw a profile."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.errors import RecordingError
from soscope.options.prof.flame import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the recording ends too early or cannot be drawn."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.flamefile import write_flame
    from soscope.cli.prof.reading import profile_at
    from soscope.instruments.prof.model import COMPLETE, EMPTY
    from soscope.report.proftree import flame_document, page

    profile = profile_at(options.file)
    if profile.is_empty and profile.state == COMPLETE:
        raise RecordingError(f"'{options.file.path}' {EMPTY}")
    draw = page if options.is_page else flame_document
    text = draw(profile, threads=options.by_thread)
    was_written = write_flame(text, options.output, options.file.path)
    if profile.state != COMPLETE:
        note(f"'{options.file.path}' is not complete: {profile.state}")
        return 1
    return 0 if was_written else 1
