# SPDX-License-Identifier: Apache-2.0
"""`soscope resolve`: find a symbol in a running process, or the symbol at an address."""

from __future__ import annotations

import sys

from soscope.errors import UsageError
from soscope.verbs.main import Invocation, finish, say
from soscope.verbs.options import (
    FORM,
    Option,
    Values,
    Verb,
    parse_count,
    pid_option,
    remote_option,
    sysroot_option,
    without_program,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.lookup.answer import Answer
    from soscope.live.lookup.values import ValueFormat
    from soscope.live.process import Process
    from soscope.report.output import Output


_WHICH = "which one"
_SHOW = "how to show it"


VERB = Verb(
    "resolve",
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
    Option("--namespace", metavar="N", help="the namespace, as dlmopen makes them (0)"),
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
    *FORM,
    usage="soscope resolve [options] -p PID QUERY…  or  soscope resolve --remote ADDRESS"
    " [-- PROGRAM] QUERY…",
    short="""\
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
""",
    description="""\
Print the address that dlsym(RTLD_DEFAULT, NAME) would return in the process: by the loader's own
search list, with versions, interposition, copy relocations, IFUNCs and thread-local variables. A
name that no loader would find may still be a static symbol, and is then marked as one. If several
symbols fit, all are listed, and none is chosen.
""",
    epilog="""\
exit status: 0 all found, 1 something was not found or is ambiguous, 2 wrong usage, 3 not
permitted, 4 no such process.
""",
    argument=("QUERY", "a name or an address"),
    most=None,
)


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, 1 if something was not found or is ambiguous, or 3."""
    invocation.words, program = without_program(invocation.words)
    values, queries = invocation.read(VERB)
    if values.remote is not None and values.pid is not None:
        raise UsageError("either -p or --remote")
    if values.remote is None:
        if values.sysroot:
            raise UsageError("--sysroot is for programs of other machines (--remote)")
        VERB.check_pid(values)
    if not queries:
        raise VERB.wrong("no query: a NAME or a 0xADDR")

    from soscope.live.lookup.answer import NO_PERMISSION, OK
    from soscope.report.output import STDOUT, Output

    layout = None
    if values.read is not None:
        from soscope.live.lookup.values import ValueFormat

        layout = ValueFormat(values.read)
    if values.remote is not None:
        from soscope.control.qemu.memory import RemoteProcess, open_remote

        process: Process = RemoteProcess(open_remote(values.remote, program, values.sysroot))
    else:
        from soscope.live.process import Process

        process = Process(values.pid)
    with process:
        answers = _answers(process, queries, values, layout)
        output = Output.open(None, STDOUT)
        if values.json:
            from soscope.report.resolve import document

            output.write(values.json.shaped(document(process.pid, answers)))
        else:
            _say(output, answers, values)
    if not finish(output):
        return 1
    statuses = {answer.status for answer in answers}
    if NO_PERMISSION in statuses:
        return 3
    return 0 if statuses <= {OK} else 1


def _say(output: Output, answers: list[Answer], values: Values) -> None:
    """Print all answers, in one piece except where notes on standard error are in between."""
    from soscope.live.lookup.answer import OK
    from soscope.report.resolve import complaint, lines

    said: list[str] = []
    for answer in answers:
        said.append(lines(answer, why=values.why, every=values.all, value=values.read is not None))
        if answer.status != OK:
            output.write("".join(said))
            said.clear()
            for line in complaint(answer):
                say(line)
    output.write("".join(said))


def _answers(
    process: Process, queries: list[str], values: Values, layout: ValueFormat | None
) -> list[Answer]:
    """Answer all queries, and read the values that are wanted."""
    answers = process.answers(
        _texts(queries),
        thread=values.thread,
        namespace=values.namespace,
        lists=values.all,
        seen_from=values.seen_from,
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
