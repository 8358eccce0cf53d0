# SPDX-License-Identifier: Apache-2.0
"""`soscope prof check`: show how a library can be profiled."""

from __future__ import annotations

from soscope.verbs.main import Invocation, note, show
from soscope.verbs.options import FORM, Verb

VERB = Verb(
    "prof check",
    *FORM,
    usage="soscope prof check [options] LIB",
    short="""\
Print how a library is instrumented, and how it can be profiled.

  --json

  soscope prof check ./libfoo.so
""",
    description="""\
Print with which options an ELF file was instrumented (-pg, -pg -mfentry, -finstrument-functions,
-fpatchable-function-entry), how many call sites of the hook its code has, and how many of them are
in inlined functions. Then list the ways to record that will work for it, with the nanoseconds that
each costs a call, and the options that would make a better build. The file is never run.
""",
    epilog="""\
exit status: 0 fine, 1 it cannot be read, or is no linked ELF file, 2 wrong usage.
""",
    argument=("LIB", "an ELF library or program"),
    least=1,
    most=1,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if a part of the file cannot be read or printing failed."""
    values, (file,) = invocation.read(VERB)

    from soscope.instruments.prof.check import look_at
    from soscope.linker.collect import in_path
    from soscope.report.profcheck import check_document, check_text

    path = in_path(file)
    library = look_at(path)
    make = check_document if values.json else check_text
    said = values.json.shaped(make(library))
    for why in library.mapped.partial:
        note(f"{path}: partial: {why}")
    return 0 if show(said) and not library.mapped.partial else 1
