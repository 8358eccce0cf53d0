# SPDX-License-Identifier: Apache-2.0
"""`soscope resolve`: where a symbol is in a running process, and what an address is."""

from __future__ import annotations

import sys

from soscope.cli.main import Invocation, note
from soscope.options.resolve import ResolveOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.process.live import Process
    from soscope.process.lookup.answer import Answer
    from soscope.process.lookup.values import ValueFormat


def run(invocation: Invocation) -> int:
    """Run the verb; return 0, 1 where something was not found or is ambiguous, or 3."""
    options = parse(invocation.words)
    invocation.debug |= options.debug

    # --help and usage errors need none of these
    from soscope.cli.output import finish
    from soscope.process.live import Process
    from soscope.process.lookup.answer import NO_PERMISSION
    from soscope.report.output import STDOUT, Output

    layout = None
    if options.read is not None:
        from soscope.process.lookup.values import ValueFormat

        layout = ValueFormat(options.read)
    with Process(options.pid) as process:
        answers = _answers(process, options, layout)
        output = Output.open(None, STDOUT)
        if options.json:
            from soscope.report.resolvejson import document

            output.write(document(options.pid, answers))
        else:
            from soscope.report.resolve import complaint, lines

            for answer in answers:
                text = lines(answer, why=options.why, every=options.all, value=layout is not None)
                if text:
                    output.write(text)
                if not answer:
                    for line in complaint(answer):
                        note(line)
    if not finish(output):
        return 1
    if any(answer.status == NO_PERMISSION for answer in answers):
        return 3
    return 0 if all(answers) else 1


def _answers(process: Process, options: ResolveOptions, layout: ValueFormat | None) -> list[Answer]:
    """Ask all queries; read the values that are wanted."""
    from soscope.process.lookup.query import parse as parse_query

    queries = [parse_query(text) for text in _texts(options.queries)]
    answers = process.answers(
        queries,
        thread=options.thread,
        namespace=options.namespace,
        lists=options.all,
        seen_from=options.seen_from,
    )
    if layout is not None:
        from soscope.process.lookup.answer import NO_PERMISSION, NONE
        from soscope.process.lookup.values import Unreadable

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
    """Return the queries; `-` stands for those on standard input."""
    texts: list[str] = []
    for word in words:
        if word == "-":
            texts += [line.strip() for line in sys.stdin if line.strip()]
        else:
            texts.append(word)
    return texts
