# SPDX-License-Identifier: Apache-2.0
"""`soscope explain`: how calls of a symbol go, in files or in a running process."""

from __future__ import annotations

from soscope.cli.main import Invocation, note
from soscope.options.explain import ExplainOptions, parse


def run(invocation: Invocation) -> int:
    """Run the verb; return 0, or 1 where no slot leads to the symbol."""
    options = parse(invocation.words)
    invocation.debug |= options.debug
    if options.pid is None:
        from soscope.cli.explainfile import explain_in_files

        return explain_in_files(options)
    return _explain_process(options, options.pid)


def _explain_process(options: ExplainOptions, pid: int) -> int:
    # --help and usage errors need none of these
    from soscope.cli.output import show
    from soscope.inspect.explainlive import explain
    from soscope.report import explainlive as report

    found = explain(pid, options.symbol, options.importer)
    text = ""
    if options.json:
        text = report.document(found)
    elif found.ways:
        text = report.text(found)
    if not show(text):
        return 1
    if found.is_changing:
        note("libraries come and go in this process: what is said may be of two moments")
    if found.ways:
        return 1 if found.is_changing else 0
    who = "no image" if options.importer is None else options.importer
    said = f"{who} has a slot for '{found.symbol}'"
    if options.importer is not None:
        said = f"{who} has no slot for '{found.symbol}'"
    if found.others:
        said += f"; {', '.join(found.others)} {'has' if len(found.others) == 1 else 'have'} one"
    note(said)
    return 1
