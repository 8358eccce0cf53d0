# SPDX-License-Identifier: Apache-2.0
"""`soscope mem where`: show what the memory of a process is used for."""

from __future__ import annotations

from soscope.verbs.main import Invocation, show
from soscope.verbs.options import (
    FORM,
    ONCE,
    Verb,
    duration_option,
    pid_option,
)

VERB = Verb(
    "mem where",
    pid_option(about="it is only read, and never stopped"),
    duration_option(
        "what to look at",
        "look twice, with this time between (60s, 5m), and say what grows",
        kind=ONCE,
    ),
    *FORM,
    usage="soscope mem where [options] -p PID",
    short="""\
Show where the memory of a process is, and whether it leaks or malloc keeps it.

  -p
  --duration
  --json

  soscope mem where -p 4711
  soscope mem where -p 4711 --duration 60s
""",
    description="""\
Print one table that adds up to the resident memory (RSS): blocks in use, free memory of malloc by
arena, files by library, stacks, shared memory, huge pages, and the rest. Below it are the memory
that malloc_trim(0) would give back, the block that pins the top of the heap, and a verdict: leak,
retention or unknown, with the setting that would help. After one look the verdict is never leak.
""",
    epilog="""\
exit status: 0 fine, 2 wrong usage, 3 not permitted, 4 no such process.
""",
    needs_pid=True,
)


_NS = 1_000_000_000


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the result could not be written."""
    values, _ = invocation.read(VERB)

    from soscope.inspect.memory import judge, look_at, watch
    from soscope.live.process import Process
    from soscope.report.mem import where_document, where_text

    with Process(values.pid, is_gentle=True) as process:
        looks = [look_at(process)]
        if values.duration is not None:
            looks += watch(process, looks[0], values.duration / _NS)
    make = where_document if values.json else where_text
    return 0 if show(values.json.shaped(make(looks[-1], judge(looks)))) else 1
