# SPDX-License-Identifier: Apache-2.0
"""`soscope check`: what does not fit together in the linking of files."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.check import parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0, or 1 where there is a fault or a file cannot be read."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.cli.output import show
    from soscope.inspect.check import check
    from soscope.linker.collect import files_below, images_of
    from soscope.report import check as report

    paths = list(files_below(options.files))
    if not paths:
        note("no ELF or Mach-O file there")
        return 1
    found = []
    is_whole = True
    for image, error in images_of(paths, options.arch):
        if image is None:
            note(error)
            is_whole = False
            continue
        one = check(image, run=options.run)
        is_whole &= not image.partial
        found.append(one)
    text = report.document(found) if options.json else report.text(found)
    if not show(text):
        return 1
    is_fine = all(not one.faults if options.strict else one.is_sound for one in found)
    return 0 if is_fine and is_whole else 1
