# SPDX-License-Identifier: Apache-2.0
"""`soscope explain FILE SYMBOL [OTHER-FILE]`: the life of one call, as files lay it down."""

from __future__ import annotations

import os

from soscope.cli.main import note
from soscope.cli.output import finish, show
from soscope.errors import SoscopeError
from soscope.inspect.explainfile import Subject, explain_files
from soscope.options.explain import ExplainOptions
from soscope.report import explainfile as report
from soscope.report.output import Output

_NO_TERMINAL = 132  # columns of a pipe or a file


def explain_in_files(options: ExplainOptions) -> int:
    """Print it; return 0, or 1 where a file has no slot for the symbol, or is damaged."""
    found = _explained(options)
    has_ways = any(one.ways for one in found)
    is_written = True
    text = ""
    if options.json:
        from soscope.report import explainfilejson

        text = explainfilejson.document(options.symbol, found)
    elif options.svg is None and has_ways:
        text = report.text(found, options.width or _columns())
    if options.svg is not None and has_ways:
        from soscope.report import explainsvg

        output = Output.open(options.svg)
        output.write(explainsvg.document(found))
        is_written = finish(output)
    if not (show(text) and is_written):
        return 1
    is_whole = True
    for one in found:
        if not one.ways:
            note(f"{one.path}: {report.nothing(one)}")
        for reason in one.partial:
            note(f"{one.path}: partial: {reason}")
        is_whole &= bool(one.ways) and not one.partial and not any(way.wrong for way in one.ways)
    return 0 if is_whole else 1


def _explained(options: ExplainOptions) -> list[Subject]:
    try:
        return explain_files(options.files, options.symbol, options.arch)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SoscopeError(
            f"{error.filename}: {reason}", slug="no-such-file", errno=error.errno
        ) from error


def _columns() -> int:
    """Return the width of the terminal on standard output, enough for two columns elsewhere."""
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        pass  # not said: the terminal is asked
    try:
        return os.get_terminal_size(1).columns or _NO_TERMINAL
    except OSError:
        return _NO_TERMINAL
