# SPDX-License-Identifier: Apache-2.0
"""Tables as in ltrace and strace: each row is a line of words."""

from __future__ import annotations

from soscope.model.image import Record
from soscope.report.words import UNTOLD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

_LEAST = 20  # letters of the rule below the last title, if that is a name


class Heading(Record):
    """The head of a column. `width` is the least width, 0 for text in place of a number."""

    __slots__ = ("title", "width")

    def __init__(self, title: str, width: int = 0) -> None:
        self.title = title
        self.width = width


class TableText(str):
    """The text of a table. `has_marks` means that a number in it has the mark of `words.marked`."""

    __slots__ = ("has_marks",)

    has_marks: bool

    def __new__(cls, text: str, *, has_marks: bool) -> Self:
        """Make a string with the attribute."""
        made = super().__new__(cls, text)
        made.has_marks = has_marks
        return made


def table_text(headings: list[Heading], rows: list[list[str]], total: list[str]) -> TableText:
    """Return rows as lines, below titles and a rule, with `total` below another rule."""
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
    # A name may end in the same letter.
    has_marks = any(
        each.width and text.endswith(UNTOLD)
        for row in rows
        for each, text in zip(headings, row, strict=True)
    )
    text = "".join([titles, rule, *map(show, rows), rule, show(total)])
    return TableText(text, has_marks=has_marks)
