# SPDX-License-Identifier: Apache-2.0
"""`-o FILE` of the verbs that draw a flame graph: a picture or a page, by the suffix."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.verbs.options import VALUE, Option

SVG, HTML = ".svg", ".html"

OUTPUT = Option(
    "-o",
    "--output",
    dest="output",
    kind=VALUE,
    metavar="FILE",
    group="where to",
    help="write FILE: .svg is a picture, .html a page that needs nothing else",
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
