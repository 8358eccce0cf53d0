# SPDX-License-Identifier: Apache-2.0
"""`soscope check`: find inconsistencies in the linking of files."""

from __future__ import annotations

from soscope.verbs.main import Invocation, finish, note, say
from soscope.verbs.options import FORM, Option, Verb

VERB = Verb(
    "check",
    "what to look for",
    Option("--strict", help="remarks count as faults"),
    Option(
        "--hardening",
        help="list files that are not built for IBT and shadow stacks (x86), BTI and PAC"
        " (aarch64), too",
    ),
    Option("--run", help="run every stub under an emulator, unbound and bound, and compare"),
    Option("--arch", metavar="ARCH", help="only images for this architecture"),
    *FORM,
    usage="soscope check [options] FILE…",
    short="""\
Say what does not fit together in the linking of ELF and Mach-O files.

  --strict
  --hardening
  --run
  --json

  soscope check /usr/lib/libfoo.so
""",
    description="""\
Compare what a file tells about its own linking: stubs, slots, relocations or bind records, and what
the lazy halves pass to the resolver. Tools and loaders rely on each of them without comparing them.
Remarks list properties that make the file easier to attack. The processor of this machine never
runs code of the file.
""",
    epilog="""\
exit status: 0 no fault, 1 a fault (with --strict also a remark), or a file cannot be read, 2 wrong
usage.
""",
    argument=("FILE", "an ELF or Mach-O file, a folder of them, or a program in PATH"),
    least=1,
    most=None,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if there is a fault or a file cannot be read."""
    values, files = invocation.read(VERB)

    from soscope.inspect.check.check import check
    from soscope.linker.collect import files_below, images_of, in_path, shortfall
    from soscope.report.check import HEAD, TAIL, Totals, document, text
    from soscope.report.output import STDOUT, Output

    paths = list(files_below(in_path(name) for name in files))
    output = Output.open(None, STDOUT)
    totals = Totals()
    is_whole = is_fine = is_first = True
    parts: list[str] = []  # parts of a page, which is made from all of them
    for image, error in images_of(paths, values.arch):
        if image is None:
            say(error)
            is_whole = False
            continue
        try:
            checked = check(image, run=values.run, hardening=values.hardening)
            said = document(checked, is_first=is_first) if values.json else text(checked)
        except (OSError, MemoryError) as lack:
            say(f"{image.path}: {shortfall(lack)}")
            is_whole = False
            continue
        if values.json and is_first:
            said = HEAD + said
        parts.append(said)
        if not values.json.is_markdown:
            output.write(parts.pop())
        totals.add(checked)
        is_first = False
        is_whole &= not image.partial
        is_fine &= not checked.faults if values.strict else checked.is_sound
        if not output.is_open:
            break
    if values.json:
        parts.append((HEAD if is_first else "") + TAIL)
        output.write(values.json.shaped("".join(parts)))
    elif paths:
        output.write(totals.text())
    if not finish(output):
        return 1
    if not paths:
        note("no ELF or Mach-O file there")
        return 1
    return 0 if is_fine and is_whole else 1
