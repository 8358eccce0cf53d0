# SPDX-License-Identifier: Apache-2.0
"""`soscope resolve`: find a symbol in a running process, or the symbol at an address."""

from __future__ import annotations

import sys

from soscope.errors import UsageError
from soscope.report.output import Form
from soscope.verbs.main import Invocation, say
from soscope.verbs.options import (
    DEBUG,
    FORMAT,
    JSON,
    Option,
    Values,
    Verb,
    parse_count,
    pid_option,
    remote_option,
    sysroot_option,
    table,
    the_pid,
    without_program,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.entry.remote.packets import RemoteAddress
    from soscope.live.lookup.answer import Answer
    from soscope.live.lookup.values import ValueFormat
    from soscope.live.process import Process
    from soscope.report.output import Output


USAGE = (
    "soscope resolve [options] -p PID QUERY…  or  soscope resolve --remote ADDRESS"
    " [-- PROGRAM] QUERY…"
)

SHORT = f"""\
usage: {USAGE}

Say where a symbol is in a running process, by the rules of its loader, and what an address is.

  -p
  --remote
  NAME           what dlsym would return there; NAME@VERSION as dlvsym
  IMAGE!NAME     in this image and the images that it needs
  0xADDR         the symbol that contains the address
  -              more queries on standard input, one a line
  --read
  --why
  --json

  soscope resolve -p 4711 --read 3i ruby_api_version

soscope resolve --help lists all options.
"""

DESCRIPTION = """\
Print the address that dlsym(RTLD_DEFAULT, NAME) would return in the process: by the loader's own
search list, with versions, interposition, copy relocations, IFUNCs and thread-local variables. A
name that no loader would find may still be a static symbol, and is then marked as one. If several
symbols fit, all are listed, and none is chosen.
"""

EPILOG = """\
exit status: 0 all found, 1 something was not found or is ambiguous, 2 wrong usage, 3 not
permitted, 4 no such process.
"""

_WHICH = "which one"
_SHOW = "how to show it"

OPTIONS = table(
    DEBUG,
    pid_option(group=_WHICH, about="it is only read, and never stopped"),
    remote_option(_WHICH),
    sysroot_option(_WHICH, "where the system of a remote program lies"),
    _WHICH,
    Option(
        "--thread",
        metavar="TID",
        convert=parse_count,
        help="whose thread-local variables are meant (the first thread's)",
    ),
    Option(
        "--namespace",
        metavar="N",
        convert=parse_count,
        help="the namespace, as dlmopen makes them (0)",
    ),
    Option(
        "--seen-from",
        metavar="IMAGE",
        help="what the slot of this image is bound to, instead of a look-up",
    ),
    _SHOW,
    Option("--all", help="every definition, in the loader's order; * marks the one that is found"),
    Option(
        "--read",
        metavar="FORMAT",
        help="read the value, too: str, i8 to u64, f32, f64, ptr, hex:N or letters of Python's "
        "struct; * before it follows a pointer first",
    ),
    Option("--why", help="the steps that lead to the answer"),
    JSON,
    FORMAT,
)


class ResolveOptions:
    """The parsed options of `soscope resolve`: the process, the queries, how to show answers.

    `pid` is 0 if the program runs under the stub at `remote`. Then `program` is its path, "" if
    the stub has to tell, and its libraries are below `sysroot`.
    """

    __slots__ = (
        "all",
        "debug",
        "json",
        "namespace",
        "pid",
        "program",
        "queries",
        "read",
        "remote",
        "seen_from",
        "sysroot",
        "thread",
        "why",
    )

    def __init__(self, values: Values, queries: list[str], program: str) -> None:
        """Take the options from the parsed words. Raises UsageError."""
        self.remote: RemoteAddress | None = values.remote
        self.program = program
        self.sysroot: str = values.sysroot
        if self.remote is not None and values.pid is not None:
            raise UsageError("either -p or --remote")
        if self.remote is None and self.sysroot:
            raise UsageError("--sysroot is for programs of other machines (--remote)")
        self.pid = 0 if self.remote is not None else the_pid(values, USAGE)
        if not queries:
            raise UsageError("no query: a NAME or a 0xADDR", hint=f"usage: {USAGE}")
        self.thread: int | None = values.thread
        self.namespace: int | None = values.namespace
        self.seen_from: str | None = values.seen_from
        self.all: bool = values.all
        self.read: str | None = values.read
        self.why: bool = values.why
        self.json: Form = values.json
        self.debug: bool = values.debug
        self.queries = queries


VERB = Verb(
    "resolve",
    OPTIONS,
    usage=USAGE,
    short=SHORT,
    description=DESCRIPTION,
    epilog=EPILOG,
    argument=("QUERY", "a name or an address"),
    most=None,
)


def parse(arguments: list[str]) -> ResolveOptions:
    """Parse the words behind `soscope resolve`. Raises UsageError, or SystemExit for help."""
    words, program = without_program(arguments)
    return ResolveOptions(*VERB.read(words), program)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, 1 if something was not found or is ambiguous, or 3."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.live.lookup.answer import NO_PERMISSION, OK
    from soscope.report.output import STDOUT, Output
    from soscope.verbs.main import finish

    layout = None
    if options.read is not None:
        from soscope.live.lookup.values import ValueFormat

        layout = ValueFormat(options.read)
    with _opened(options) as process:
        answers = _answers(process, options, layout)
        output = Output.open(None, STDOUT)
        if options.json:
            from soscope.report.resolve import document

            output.write(options.json.shaped(document(process.pid, answers)))
        else:
            _say(output, answers, options)
    if not finish(output):
        return 1
    statuses = {answer.status for answer in answers}
    if NO_PERMISSION in statuses:
        return 3
    return 0 if statuses <= {OK} else 1


def _opened(options: ResolveOptions) -> Process:
    """Open the process, or the program of a GDB stub. Raises SoscopeError."""
    if options.remote is not None:
        from soscope.control.qemu.memory import RemoteProcess, open_remote

        return RemoteProcess(open_remote(options.remote, options.program, options.sysroot))
    from soscope.live.process import Process

    return Process(options.pid)


def _say(output: Output, answers: list[Answer], options: ResolveOptions) -> None:
    """Print all answers, in one piece except where notes on standard error are in between."""
    from soscope.live.lookup.answer import OK
    from soscope.report.resolve import complaint, lines

    why, every, value = options.why, options.all, options.read is not None
    said: list[str] = []
    for answer in answers:
        said.append(lines(answer, why=why, every=every, value=value))
        if answer.status != OK:
            output.write("".join(said))
            said.clear()
            for line in complaint(answer):
                say(line)
    output.write("".join(said))


def _answers(process: Process, options: ResolveOptions, layout: ValueFormat | None) -> list[Answer]:
    """Answer all queries, and read the values that are wanted."""
    answers = process.answers(
        _texts(options.queries),
        thread=options.thread,
        namespace=options.namespace,
        lists=options.all,
        seen_from=options.seen_from,
    )
    if layout is not None:
        from soscope.live.lookup.answer import NO_PERMISSION, NONE
        from soscope.live.lookup.values import Unreadable

        for answer in answers:
            if answer.addr is None:
                continue
            if process.space.is_patchwork:
                answer.refuse(NO_PERMISSION, "the memory may not be read")
                continue
            try:
                answer.value = layout.read(process.space, answer.addr)
            except Unreadable as error:
                answer.refuse(NONE, str(error))
        process.space.check()
    return answers


def _texts(words: list[str]) -> list[str]:
    """Return the queries. `-` stands for queries on standard input."""
    texts: list[str] = []
    for word in words:
        if word == "-":
            texts += [text for line in sys.stdin if (text := line.strip())]
        else:
            texts.append(word)
    return texts
