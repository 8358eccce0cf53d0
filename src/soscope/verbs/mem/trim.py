# SPDX-License-Identifier: Apache-2.0
"""`soscope mem trim`: make malloc of a process return its free memory to the system."""

from __future__ import annotations

from soscope.verbs.main import Invocation, show
from soscope.verbs.options import FORM, Verb, pid_option

VERB = Verb(
    "mem trim",
    pid_option(about="one thread of it makes the call"),
    *FORM,
    usage="soscope mem trim [options] -p PID",
    short="""\
Let malloc of a process return its free memory to the kernel: call malloc_trim(0) in it.

  -p
  --json

soscope mem where -p PID says before how much that will be.
""",
    description="""\
Let one thread of the process call glibc's malloc_trim(0) while the others run. Then the thread goes
on with what it did. soscope never takes a thread that is in malloc or in the loader. Print the
resident memory (RSS) before and after. malloc locks one arena after the other meanwhile.
""",
    epilog="""\
exit status: 0 fine, 1 no call can be made in the process, or its allocator is not glibc's, 2 wrong
usage, 3 not permitted, 4 no such process.
""",
    needs_pid=True,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the result could not be written."""
    values, _ = invocation.read(VERB)

    from soscope.control.interpreter import trim
    from soscope.report.mem import trim_document, trim_text

    make = trim_document if values.json else trim_text
    return 0 if show(values.json.shaped(make(trim(values.pid)))) else 1
