# SPDX-License-Identifier: Apache-2.0
"""Tables in the form that ltrace's and strace's users know: a line of words for each row."""

from __future__ import annotations

from soscope.model.record import Record

_LEAST = 20  # letters of the rule below the last title, where that is a name


class Heading(Record):
    """The head of a column; `width` is the least, 0: it is text, and not a number."""

    __slots__ = ("title", "width")

    def __init__(self, title: str, width: int = 0) -> None:
        self.title = title
        self.width = width


def table_text(headings: list[Heading], rows: list[list[str]], total: list[str]) -> str:
    """Return rows as lines, with titles and a rule in front of them, and behind a rule `total`."""
    widths = [
        max(
            each.width or _LEAST * (each is headings[-1]),
            len(each.title),
            *(len(row[at]) for row in (*rows, total)),
        )
        for at, each in enumerate(headings)
    ]

    def show(line: list[str]) -> str:
        parts = [
            text.rjust(width) if each.width else text.ljust(width)
            for text, width, each in zip(line, widths, headings, strict=True)
        ]
        return " ".join(parts).rstrip() + "\n"

    rule = " ".join("-" * width for width in widths) + "\n"
    titles = show([each.title for each in headings])
    return "".join([titles, rule, *map(show, rows), rule, show(total)])
