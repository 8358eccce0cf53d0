# SPDX-License-Identifier: Apache-2.0
"""Tables in the form that ltrace's and strace's users know: a line of words for each row."""

from __future__ import annotations

from soscope.model.record import Record
from soscope.report.words import UNTOLD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

_LEAST = 20  # letters of the rule below the last title, where that is a name


class Heading(Record):
    """The head of a column; `width` is the least, 0: it is text, and not a number."""

    __slots__ = ("title", "width")

    def __init__(self, title: str, width: int = 0) -> None:
        self.title = title
        self.width = width


class TableText(str):
    """The text of a table; `has_marks`: a number in it has the mark of `words.marked`."""

    __slots__ = ("has_marks",)

    has_marks: bool

    def __new__(cls, text: str, *, has_marks: bool) -> Self:
        """Take the text."""
        made = super().__new__(cls, text)
        made.has_marks = has_marks
        return made


def table_text(headings: list[Heading], rows: list[list[str]], total: list[str]) -> TableText:
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
    # a name may end in the same letter
    has_marks = any(
        each.width and text.endswith(UNTOLD)
        for row in rows
        for each, text in zip(headings, row, strict=True)
    )
    text = "".join([titles, rule, *map(show, rows), rule, show(total)])
    return TableText(text, has_marks=has_marks)
