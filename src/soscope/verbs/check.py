# SPDX-License-Identifier: Apache-2.0
"""`soscope check`: find inconsistencies in the linking of files."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.main import Invocation, note, say
from soscope.verbs.options import DEBUG, FORMAT, JSON, Option, Values, Verb, table

USAGE = "soscope check [options] FILE…"

SHORT = f"""\
usage: {USAGE}

Say what does not fit together in the linking of ELF and Mach-O files.

  --strict
  --hardening
  --run
  --json

  soscope check /usr/lib/libfoo.so

soscope check --help lists all options.
"""

DESCRIPTION = """\
Compare what a file tells about its own linking: stubs, slots, relocations or bind records, and what
the lazy halves pass to the resolver. Tools and loaders rely on each of them without comparing them.
Remarks list properties that make the file easier to attack. The processor of this machine never
runs code of the file.
"""

EPILOG = """\
exit status: 0 no fault, 1 a fault (with --strict also a remark), or a file cannot be read, 2 wrong
usage.
"""

OPTIONS = table(
    DEBUG,
    "what to look for",
    Option("--strict", help="remarks count as faults"),
    Option(
        "--hardening",
        help="list files that are not built for IBT and shadow stacks (x86), BTI and PAC"
        " (aarch64), too",
    ),
    Option("--run", help="run every stub under an emulator, unbound and bound, and compare"),
    Option("--arch", metavar="ARCH", help="only images for this architecture"),
    JSON,
    FORMAT,
)


class CheckOptions:
    """The parsed options of `soscope check`."""

    __slots__ = ("arch", "debug", "files", "hardening", "json", "run", "strict")

    def __init__(self, values: Values, files: list[str]) -> None:
        self.files = files
        self.hardening: bool = values.hardening
        self.strict: bool = values.strict
        self.run: bool = values.run
        self.arch: str | None = values.arch
        self.json: Form = values.json
        self.debug: bool = values.debug


VERB = Verb(
    "check",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("FILE", "an ELF or Mach-O file, a folder of them, or a program in PATH"),
    least=1,
    most=None,
)


def parse(arguments: list[str]) -> CheckOptions:
    """Parse the words behind `soscope check`. Raises UsageError, or SystemExit for help."""
    return CheckOptions(*VERB.read(arguments))


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if there is a fault or a file cannot be read."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.inspect.check.check import check
    from soscope.linker.collect import files_below, images_of, in_path, shortfall
    from soscope.report.check import HEAD, TAIL, Totals, document, text
    from soscope.report.output import STDOUT, Output
    from soscope.verbs.main import finish

    paths = list(files_below(in_path(name) for name in options.files))
    output = Output.open(None, STDOUT)
    totals = Totals()
    is_whole = is_fine = is_first = True
    parts: list[str] = []  # parts of a page, which is made from all of them
    for image, error in images_of(paths, options.arch):
        if image is None:
            say(error)
            is_whole = False
            continue
        try:
            checked = check(image, run=options.run, hardening=options.hardening)
            said = document(checked, is_first=is_first) if options.json else text(checked)
        except (OSError, MemoryError) as lack:
            say(f"{image.path}: {shortfall(lack)}")
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
