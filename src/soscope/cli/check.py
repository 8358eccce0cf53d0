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
    from soscope.cli.output import finish
    from soscope.inspect.check import check
    from soscope.linker.collect import files_below, images_of, shortfall
    from soscope.report import check as report
    from soscope.report.output import STDOUT, Output

    paths = list(files_below(options.files))
    output = Output.open(None, STDOUT)
    totals = report.Totals()
    is_whole = is_fine = is_first = True
    for image, error in images_of(paths, options.arch):
        if image is None:
            note(error)
            is_whole = False
            continue
        try:
            one = check(image, run=options.run)
            text = report.document(one, is_first=is_first) if options.json else report.text(one)
        except (OSError, MemoryError) as lack:
            note(f"{image.path}: {shortfall(lack)}")
            is_whole = False
            continue
        if options.json and is_first:
            output.write(report.HEAD)
        output.write(text)
        totals.add(one)
        is_first = False
        is_whole &= not image.partial
        is_fine &= not one.faults if options.strict else one.is_sound
        if not output.is_open:
            break
    if options.json:
        output.write((report.HEAD if is_first else "") + report.TAIL)
    elif paths:
        output.write(totals.text())
    if not finish(output):
        return 1
    if not paths:
        note("no ELF or Mach-O file there")
        return 1
    return 0 if is_fine and is_whole else 1
