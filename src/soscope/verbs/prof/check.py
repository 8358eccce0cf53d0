# SPDX-License-Identifier: Apache-2.0
"""`soscope prof check`: show how a library can be profiled."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import DEBUG, FORMAT, JSON, Values, Verb

USAGE = "soscope prof check [options] LIB"

SHORT = f"""\
usage: {USAGE}

Print how a library is instrumented, and how it can be profiled.

  --json

  soscope prof check ./libfoo.so

soscope prof check --help lists all options.
"""

DESCRIPTION = """\
Print with which options an ELF file was instrumented (-pg, -pg -mfentry, -finstrument-functions,
-fpatchable-function-entry), how many call sites of the hook its code has, and how many of them are
in inlined functions. Then list the ways to record that will work for it, with the nanoseconds that
each costs a call, and the options that would make a better build. The file is never run.
"""

EPILOG = """\
exit status: 0 fine, 1 it cannot be read, or is no linked ELF file, 2 wrong usage.
"""

OPTIONS = [DEBUG, JSON, FORMAT]


class ProfCheckOptions:
    """The parsed options of `soscope prof check`."""

    __slots__ = ("debug", "file", "json")

    def __init__(self, values: Values, files: list[str]) -> None:
        (self.file,) = files
        self.json: Form = values.json
        self.debug: bool = values.debug


VERB = Verb(
    "prof check",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("LIB", "an ELF library or program"),
    least=1,
    most=1,
)


def parse(arguments: list[str]) -> ProfCheckOptions:
    """Parse the words behind `soscope prof check`. Raises UsageError, or SystemExit for help."""
    return ProfCheckOptions(*VERB.read(arguments))


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if a part of the file cannot be read or printing failed."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.instruments.prof.check import look_at
    from soscope.linker.collect import in_path
    from soscope.report.profcheck import check_document, check_text
    from soscope.verbs.main import show

    path = in_path(options.file)
    library = look_at(path)
    make = check_document if options.json else check_text
    said = options.json.shaped(make(library))
    for why in library.mapped.partial:
        note(f"{path}: partial: {why}")
    return 0 if show(said) and not library.mapped.partial else 1
