# SPDX-License-Identifier: Apache-2.0
"""`soscope doctor`: what works on this system, and with one process or file."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.report.output import Form
from soscope.verbs.main import Invocation
from soscope.verbs.options import DEBUG, FORMAT, JSON, Verb, pid_option

USAGE = "soscope doctor [options] [-p PID | FILE]"

SHORT = f"""\
usage: {USAGE}

Say what works on this system and what does not, with what to type about it.

  -p
  FILE     a program or library, which is read and not run
  --json

  soscope doctor /usr/bin/ssh
"""

DESCRIPTION = """\
Check the installation, the rights, the kernel and the processor, mostly by trying. For a process or
file, also print how it was linked, which of its images can be hooked, which C library and
interpreter it is, and roughly what each way to trace it costs.
"""

EPILOG = """\
exit status: 0 all works, 1 something does not, or could not be found out, 2 wrong usage,
3 not permitted, 4 no such process.
"""

OPTIONS = [
    DEBUG,
    pid_option(),
    JSON,
    FORMAT,
]


class DoctorOptions:
    """The parsed options of `soscope doctor`: a process, a file or neither."""

    __slots__ = ("debug", "json", "path", "pid")

    def __init__(self, *, pid: int | None, path: str | None, json: Form, debug: bool) -> None:
        self.pid = pid
        self.path = path
        self.json = json
        self.debug = debug


VERB = Verb(
    "doctor",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("FILE", "a program or library"),
    most=1,
)


def parse(arguments: list[str]) -> DoctorOptions:
    """Parse the words behind `soscope doctor`. Raises UsageError, or SystemExit for help."""
    values, rest = VERB.read(arguments)
    path = rest[0] if rest else None
    if path is not None and values.pid is not None:
        raise UsageError("a process or a file, not both", hint=f"usage: {USAGE}")
    return DoctorOptions(pid=values.pid, path=path, json=values.json, debug=values.debug)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, 1 if something does not work, 3 or 4."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.inspect.doctor.process import diagnose
    from soscope.report.doctor import document, text
    from soscope.verbs.main import show

    diagnosis = diagnose(pid=options.pid, path=options.path)
    if not show(options.json.shaped(document(diagnosis)) if options.json else text(diagnosis)):
        return 1
    return diagnosis.status
