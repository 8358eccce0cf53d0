# SPDX-License-Identifier: Apache-2.0
"""`soscope check`: inconsistencies in the linking of files."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.verbs.check import parse


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if there is a fault or a file cannot be read."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import finish
    from soscope.inspect.check.check import check
    from soscope.linker.collect import files_below, images_of, shortfall
    from soscope.report.check import HEAD, TAIL, Totals, document, text
    from soscope.report.output import STDOUT, Output

    paths = list(files_below(options.files))
    output = Output.open(None, STDOUT)
    totals = Totals()
    is_whole = is_fine = is_first = True
    parts: list[str] = []  # parts of a page, which is made from all of them
    for image, error in images_of(paths, options.arch):
        if image is None:
            note(error)
            is_whole = False
            continue
        try:
            checked = check(image, run=options.run, hardening=options.hardening)
            said = document(checked, is_first=is_first) if options.json else text(checked)
        except (OSError, MemoryError) as lack:
            note(f"{image.path}: {shortfall(lack)}")
            is_whole = False
            continue
        if options.json and is_first:
            said = HEAD + said
        parts.append(said)
        if not options.json.is_markdown:
            output.write(parts.pop())
        totals.add(checked)
        is_first = False
        is_whole &= not image.partial
        is_fine &= not checked.faults if options.strict else checked.is_sound
        if not output.is_open:
            break
    if options.json:
        parts.append((HEAD if is_first else "") + TAIL)
        output.write(options.json.shaped("".join(parts)))
    elif paths:
        output.write(totals.text())
    if not finish(output):
        return 1
    if not paths:
        note("no ELF or Mach-O file there")
        return 1
    return 0 if is_fine and is_whole else 1
