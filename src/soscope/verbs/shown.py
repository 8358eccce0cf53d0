# SPDX-License-Identifier: Apache-2.0
"""Options of verbs that record and show: format, limits, output file, replacements."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.report.output import Form
from soscope.verbs.options import (
    VALUE,
    Option,
    format_option,
    json_option,
    output_option,
    parse_count,
    quiet_option,
)

# `-o FILE` of the verbs that draw a flame graph: a picture or a page, by the suffix.

SVG, HTML = ".svg", ".html"

OUTPUT = output_option(
    "FILE", "write FILE: .svg is a picture, .html a page that needs nothing else"
)


def flame_file(path: str | None, usage: str) -> str:
    """Return the file to draw into. Raises UsageError if there is none, or by its suffix."""
    if path is None:
        raise UsageError("no file to draw into", hint=f"usage: {usage}")
    if not path.lower().endswith((SVG, HTML)):
        raise UsageError(f"'{path}' is neither a .svg nor a .html file")
    return path


def is_page(path: str) -> bool:
    """Return whether a page is wanted."""
    return path.lower().endswith(HTML)


# The options of verbs that make a recording and show it: -f and -o.

WHERE = "where to"

RECORDING_OUTPUT = output_option(
    "REC", "keep a recording in the file REC, in place of what it holds", group=WHERE
)
QUIET = quiet_option(WHERE, "no notes at the end")


def check_form(form: Form, output: str | None, family: str) -> None:
    """Raise UsageError if a form is given although the recording is kept and not shown."""
    if form and output is not None:
        raise UsageError(
            f"-o REC and --format {form.name}: with -o nothing is shown",
            hint=f"soscope {family} report --format {form.name} REC shows it",
        )


# Options of the verbs that show a recording of memory or a profile: form and rows.

HOW = "how to show it"

JSON = json_option(HOW, "one JSON document, for programs")
LIMIT = Option(
    "--limit",
    aliases=("--top",),
    dest="rows",
    kind=VALUE,
    metavar="N",
    convert=parse_count,
    group=HOW,
    help="the N largest rows alone",
)
FORMAT = format_option(HOW)
