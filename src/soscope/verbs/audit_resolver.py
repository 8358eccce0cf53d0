# SPDX-License-Identifier: Apache-2.0
"""`soscope audit-resolver`: check whether lazy binding keeps the registers of a call."""

from __future__ import annotations

from soscope.verbs.main import Invocation, note, show
from soscope.verbs.options import FORM, Option, Verb

VERB = Verb(
    "audit-resolver",
    "how to show it",
    Option("--why", help="every call whose target the file does not say"),
    *FORM,
    usage="soscope audit-resolver [options] [LD.SO]",
    short="""\
Say which registers a dynamic linker saves when it binds a slot at its first call, and which of
them the code that it runs meanwhile may overwrite.

  LD.SO   the dynamic linker's file (the one that runs soscope)
  --why
  --json

  soscope audit-resolver /lib32/ld-linux.so.2
""",
    description="""\
Find the trampolines of lazy binding in a dynamic linker, also in a stripped one. Print which
argument registers each saves and restores, which registers the code that it calls may overwrite,
and which calls leave the file. The file is disassembled (pip install 'soscope[disasm]'), never run.
""",
    epilog="""\
exit status: 0 lazy binding loses no argument register, 1 it does, or no trampoline was found,
2 wrong usage.
""",
    argument=("LD.SO", "a dynamic linker (the one that runs soscope)"),
    most=1,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if an argument is lost or no trampoline was found."""
    values, rest = invocation.read(VERB)

    from soscope.inspect.audit.audit import UNSOUND, audit
    from soscope.linker.collect import in_path
    from soscope.report.audit_resolver import document, text

    audited = audit(in_path(rest[0]) if rest else None)
    said = document(audited) if values.json else text(audited, why=values.why)
    if not show(values.json.shaped(said)):
        return 1
    if audited.binds_lazily and audited.verdict is None:
        note("partial: no trampoline of lazy binding was found in this file")
        return 1
    return 1 if audited.verdict == UNSOUND else 0
