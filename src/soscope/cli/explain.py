# SPDX-License-Identifier: Apache-2.0
"""`soscope explain`: the route of calls of a symbol, in files or in a running process."""

from __future__ import annotations

import os

from soscope.cli.main import Invocation, note
from soscope.errors import SoscopeError
from soscope.verbs.explain import ExplainOptions, parse

TYPE_CHECKING = False
if TYPE_CHECKING:  # imported after the words were parsed
    from soscope.inspect.explain.callway import Explanation, Importer

_NO_TERMINAL = 132  # columns for a pipe or a file


def run(invocation: Invocation) -> int:
    """Run the verb. Return 0, or 1 if no slot leads to the symbol or a file is damaged."""
    options = parse(invocation.words)
    invocation.debug |= options.debug
    explanation = _explained(options)
    if not _show(explanation, options):
        return 1
    is_whole = explanation.has_ways and not explanation.is_changing
    if explanation.is_changing:
        note("libraries come and go in this process: what is said may be of two moments")
    if explanation.pid is not None:
        if not explanation.has_ways:
            note(_nothing_in_process(explanation, options.from_))
        return 0 if is_whole else 1
    for image in explanation.images:
        is_whole &= _is_whole(image)
    return 0 if is_whole else 1


def _explained(options: ExplainOptions) -> Explanation:
    # Imported late, as --help and usage errors do not need it.
    if options.pid is not None:
        from soscope.inspect.explain.process import explain_process

        return explain_process(options.pid, options.symbol, options.from_)
    from soscope.inspect.explain.files import explain_files

    try:
        return explain_files(options.files, options.symbol, options.arch)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SoscopeError(
            f"{error.filename}: {reason}", slug="no-such-file", errno=error.errno
        ) from error


def _show(explanation: Explanation, options: ExplainOptions) -> bool:
    """Write what was asked for. Return whether all of it was written."""
    from soscope.cli.output import finish, show

    said = ""
    if options.json:
        from soscope.report.explain import document

        said = options.json.shaped(document(explanation))
    elif options.svg is None and explanation.has_ways:
        from soscope.report.explain import text

        said = text(explanation, options.width or _columns())
    is_written = True
    if options.svg is not None and explanation.has_ways:
        from soscope.report import explainsvg
        from soscope.report.output import Output

        output = Output.open(options.svg)
        output.write(explainsvg.document(explanation))
        is_written = finish(output)
    return show(said) and is_written


def _is_whole(image: Importer) -> bool:
    """Return whether a file could be explained completely. Print what is missing."""
    from soscope.report.explain import nothing

    if not image.ways:
        note(f"{image.path}: {nothing(image)}")
    for reason in image.partial:
        note(f"{image.path}: partial: {reason}")
    return bool(image.ways) and not image.partial and not any(way.wrong for way in image.ways)


def _nothing_in_process(explanation: Explanation, importer: str | None) -> str:
    """Return a message that no slot of `importer`, or of any image if None, leads to the symbol."""
    said = f"no image has a slot for '{explanation.symbol}'"
    if importer is not None:
        said = f"{importer} has no slot for '{explanation.symbol}'"
    others = explanation.others
    if others:
        said += f"; {', '.join(others)} {'has' if len(others) == 1 else 'have'} one"
    return said


def _columns() -> int:
    """Return the width of the terminal on standard output, else enough for two columns."""
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        pass  # COLUMNS is not set: ask the terminal
    try:
        return os.get_terminal_size(1).columns or _NO_TERMINAL
    except OSError:
        return _NO_TERMINAL
