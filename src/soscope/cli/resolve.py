# SPDX-License-Identifier: Apache-2.0
"""`soscope resolve`: where a symbol is in a running process, and what an address is."""

from __future__ import annotations

import sys

from soscope.cli.main import Invocation, note
from soscope.verbs.resolve import ResolveOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.lookup.answer import Answer
    from soscope.live.lookup.values import ValueFormat
    from soscope.live.process import Process
    from soscope.report.output import Output


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, 1 if something was not found or is ambiguous, or 3."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # Imported late, as --help and usage errors do not need it.
    from soscope.cli.output import finish
    from soscope.live.lookup.answer import NO_PERMISSION, OK
    from soscope.report.output import STDOUT, Output

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
                note(line)
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
