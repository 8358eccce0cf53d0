# SPDX-License-Identifier: Apache-2.0
"""The options of `soscope check`."""

from __future__ import annotations

from soscope.options.process import FORMAT, JSON
from soscope.options.verb import Verb
from soscope.report.output import Form
from soscope.verbs.display import DEBUG
from soscope.verbs.options import VALUE, Option, Values

USAGE = "soscope check [options] FILE…"

SHORT = f"""\
usage: {USAGE}

Say what does not fit together in the linking of ELF and Mach-O files.

  --strict     remarks count as faults
  --hardening  say which files are not made for IBT and shadow stacks, too
  --run        run every stub under an emulator, too (the extra "emulate")
  --json       for programs

  soscope check /usr/lib/libfoo.so

soscope check --help lists all options.
"""

DESCRIPTION = """\
Compares what a file says of its own linking: stubs, slots, relocations or bind records, and what
the lazy halves give the resolver. Tools and loaders believe each of them; nobody compares them.
Remarks say what would make the file harder to attack. Nothing of it is run on this machine's
processor.
"""

EPILOG = """\
exit status: 0 no fault, 1 a fault (with --strict also a remark), or a file cannot be read, 2 wrong
usage.
"""

OPTIONS = [
    DEBUG,
    Option(
        "--strict",
        dest="strict",
        group="what to look for",
        help="remarks count as faults",
    ),
    Option(
        "--hardening",
        dest="hardening",
        group="what to look for",
        help="say which files are not made for IBT and shadow stacks (x86), BTI and PAC"
        " (aarch64), too",
    ),
    Option(
        "--run",
        dest="run",
        group="what to look for",
        help="run every stub under an emulator, unbound and bound, and compare",
    ),
    Option(
        "--arch",
        dest="arch",
        kind=VALUE,
        metavar="ARCH",
        group="what to look for",
        help="only images for this architecture",
    ),
    JSON,
    FORMAT,
]


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
    argument=("FILE", "an ELF or Mach-O file, or a folder of them"),
    least=1,
    most=None,
)
make_parser = VERB.make_parser


def parse(arguments: list[str]) -> CheckOptions:
    """Parse the words behind `soscope check`. Raises UsageError, or SystemExit for help."""
    return CheckOptions(*VERB.read(arguments))
