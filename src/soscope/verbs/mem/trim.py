# SPDX-License-Identifier: Apache-2.0
"""`soscope mem trim`: make malloc of a process return its free memory to the system."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.main import Invocation
from soscope.verbs.options import DEBUG, FORMAT, JSON, Values, Verb, pid_option, the_pid

USAGE = "soscope mem trim [options] -p PID"

SHORT = f"""\
usage: {USAGE}

Let malloc of a process return its free memory to the kernel: call malloc_trim(0) in it.

  -p
  --json

soscope mem where -p PID says before how much that will be.
"""

DESCRIPTION = """\
Let one thread of the process call glibc's malloc_trim(0) while the others run. Then the thread goes
on with what it did. soscope never takes a thread that is in malloc or in the loader. Print the
resident memory (RSS) before and after. malloc locks one arena after the other meanwhile.
"""

EPILOG = """\
exit status: 0 fine, 1 no call can be made in the process, or its allocator is not glibc's, 2 wrong
usage, 3 not permitted, 4 no such process.
"""

OPTIONS = [DEBUG, pid_option(about="one thread of it makes the call"), JSON, FORMAT]


class TrimOptions:
    """The parsed options of `soscope mem trim`."""

    __slots__ = ("debug", "json", "pid")

    def __init__(self, values: Values) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.pid = the_pid(values, USAGE)
        self.json: Form = values.json
        self.debug: bool = values.debug


VERB = Verb(
    "mem trim",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
)


def parse(arguments: list[str]) -> TrimOptions:
    """Parse the words behind `soscope mem trim`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    return TrimOptions(values)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the result could not be written."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.control.interpreter import trim
    from soscope.report.mem import trim_document, trim_text
    from soscope.verbs.main import show

    trimmed = trim(options.pid)
    return (
        0
        if show(options.json.shaped(trim_document(trimmed)) if options.json else trim_text(trimmed))
        else 1
    )
