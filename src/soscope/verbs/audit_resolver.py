# SPDX-License-Identifier: Apache-2.0
"""`soscope audit-resolver`: check whether lazy binding keeps the registers of a call."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.main import Invocation, note
from soscope.verbs.options import DEBUG, FORMAT, JSON, Option, Verb, table

USAGE = "soscope audit-resolver [options] [LD.SO]"

SHORT = f"""\
usage: {USAGE}

Say which registers a dynamic linker saves when it binds a slot at its first call, and which of
them the code that it runs meanwhile may overwrite.

  LD.SO   the dynamic linker's file (the one that runs soscope)
  --why
  --json

  soscope audit-resolver /lib32/ld-linux.so.2
"""

DESCRIPTION = """\
Find the trampolines of lazy binding in a dynamic linker, also in a stripped one. Print which
argument registers each saves and restores, which registers the code that it calls may overwrite,
and which calls leave the file. The file is disassembled (pip install 'soscope[disasm]'), never run.
"""

EPILOG = """\
exit status: 0 lazy binding loses no argument register, 1 it does, or no trampoline was found,
2 wrong usage.
"""

OPTIONS = table(
    DEBUG,
    "how to show it",
    Option("--why", help="every call whose target the file does not say"),
    JSON,
    FORMAT,
)


class AuditOptions:
    """The parsed options. `path` is None for the loader of this Python interpreter."""

    __slots__ = ("debug", "json", "path", "why")

    def __init__(self, *, path: str | None, why: bool, json: Form, debug: bool) -> None:
        self.path = path
        self.why = why
        self.json = json
        self.debug = debug


VERB = Verb(
    "audit-resolver",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("LD.SO", "a dynamic linker (the one that runs soscope)"),
    most=1,
)


def parse(arguments: list[str]) -> AuditOptions:
    """Parse the words behind the verb. Raises UsageError, or SystemExit for help."""
    values, rest = VERB.read(arguments)
    return AuditOptions(
        path=rest[0] if rest else None, why=values.why, json=values.json, debug=values.debug
    )


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if an argument is lost or no trampoline was found."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.inspect.audit.audit import UNSOUND, audit
    from soscope.linker.collect import in_path
    from soscope.report.audit_resolver import document, text
    from soscope.verbs.main import show

    audited = audit(None if options.path is None else in_path(options.path))
    if not show(
        options.json.shaped(document(audited)) if options.json else text(audited, why=options.why)
    ):
        return 1
    if audited.binds_lazily and audited.verdict is None:
        note("partial: no trampoline of lazy binding was found in this file")
        return 1
    return 1 if audited.verdict == UNSOUND else 0
