# SPDX-License-Identifier: Apache-2.0
"""`soscope mem where`: show what the memory of a process is used for."""

from __future__ import annotations

from soscope.report.output import Form
from soscope.verbs.main import Invocation
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    ONCE,
    Values,
    Verb,
    duration_option,
    pid_option,
    the_pid,
)

USAGE = "soscope mem where [options] -p PID"

SHORT = f"""\
usage: {USAGE}

Show where the memory of a process is, and whether it leaks or malloc keeps it.

  -p
  --duration
  --json

  soscope mem where -p 4711
  soscope mem where -p 4711 --duration 60s

soscope mem where --help lists all options.
"""

DESCRIPTION = """\
Print one table that adds up to the resident memory (RSS): blocks in use, free memory of malloc by
arena, files by library, stacks, shared memory, huge pages, and the rest. Below it are the memory
that malloc_trim(0) would give back, the block that pins the top of the heap, and a verdict: leak,
retention or unknown, with the setting that would help. After one look the verdict is never leak.
"""

EPILOG = """\
exit status: 0 fine, 2 wrong usage, 3 not permitted, 4 no such process.
"""

OPTIONS = [
    DEBUG,
    pid_option(about="it is only read, and never stopped"),
    duration_option(
        "what to look at",
        "look twice, with this time between (60s, 5m), and say what grows",
        kind=ONCE,
    ),
    JSON,
    FORMAT,
]


class WhereOptions:
    """The parsed options of `soscope mem where`. `duration` is in ns, None for one look."""

    __slots__ = ("debug", "duration", "json", "pid")

    def __init__(self, values: Values) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.pid = the_pid(values, USAGE)
        self.duration: int | None = values.duration
        self.json: Form = values.json
        self.debug: bool = values.debug


VERB = Verb(
    "mem where",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
)


def parse(arguments: list[str]) -> WhereOptions:
    """Parse the words behind `soscope mem where`. Raises UsageError, or SystemExit for help."""
    values, _ = VERB.read(arguments)
    return WhereOptions(values)


_NS = 1_000_000_000


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if the result could not be written."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.inspect.memory import judge, look_at, watch
    from soscope.live.process import Process
    from soscope.report.mem import where_document, where_text
    from soscope.verbs.main import show

    with Process(options.pid, is_gentle=True) as process:
        looks = [look_at(process)]
        if options.duration is not None:
            looks += watch(process, looks[0], options.duration / _NS)
    verdict = judge(looks)
    make = where_document if options.json else where_text
    return 0 if show(options.json.shaped(make(looks[-1], verdict))) else 1
