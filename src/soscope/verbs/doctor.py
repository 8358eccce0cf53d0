# SPDX-License-Identifier: Apache-2.0
"""`soscope doctor`: what works on this system, and with one process or file."""

from __future__ import annotations

from soscope.verbs.main import Invocation, show
from soscope.verbs.options import FORM, Verb, pid_option

VERB = Verb(
    "doctor",
    pid_option(),
    *FORM,
    usage="soscope doctor [options] [-p PID | FILE]",
    short="""\
Say what works on this system and what does not, with what to type about it.

  -p
  FILE     a program or library, which is read and not run
  --json

  soscope doctor /usr/bin/ssh
""",
    description="""\
Check the installation, the rights, the kernel and the processor, mostly by trying. For a process or
file, also print how it was linked, which of its images can be hooked, which C library and
interpreter it is, and roughly what each way to trace it costs.
""",
    epilog="""\
exit status: 0 all works, 1 something does not, or could not be found out, 2 wrong usage,
3 not permitted, 4 no such process.
""",
    argument=("FILE", "a program or library"),
    most=1,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, 1 if something does not work, 3 or 4."""
    values, rest = invocation.read(VERB)
    if rest and values.pid is not None:
        raise VERB.wrong("a process or a file, not both")

    from soscope.inspect.doctor.process import diagnose
    from soscope.report.doctor import document, text

    diagnosis = diagnose(pid=values.pid, path=rest[0] if rest else None)
    if not show(values.json.shaped((document if values.json else text)(diagnosis))):
        return 1
    return diagnosis.status
