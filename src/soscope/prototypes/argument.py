# SPDX-License-Identifier: Apache-2.0
"""One argument or result, ready to be printed."""

from __future__ import annotations

from soscope.model.record import Record
from soscope.prototypes import escape

UNKNOWN_TYPE = "?"
REST = "..."


class Argument(Record):
    """`name` of the parameter, `type` as C writes it ("?" for a guessed word), `text` and `value`.

    All of that is as it was passed. `out` is the same of what the call has written where the
    argument leads, None where it has written nothing. `shown` is the text of both that a line of
    a trace has.

    `name` is "" where there is none. `value` is the number, the string (UTF-8, other bytes as
    \\xNN) or None where there is no single one; `is_address`: that number is an address. `guess`:
    nobody has declared it. Behind the last argument that is known, type and text are "..." where a
    variadic call has more. Of a string, `cut` says that `value` is its beginning alone; `data`
    are the bytes that `value` stands for, None where it is no string of bytes.
    """

    __slots__ = (
        "cut",
        "data",
        "guess",
        "is_address",
        "name",
        "out",
        "shown",
        "text",
        "type",
        "value",
    )

    def __init__(
        self,
        of: str,
        text: str,
        value: float | str | None,
        *,
        cut: bool = False,
        data: bytes | None = None,
        is_address: bool = False,
        guess: bool = False,
    ) -> None:
        self.name = ""
        self.type = of
        self.text = text
        self.value = value
        self.cut = cut
        self.data = data
        self.is_address = is_address
        self.guess = guess
        self.out: Argument | None = None
        self.shown = text

    @property
    def told(self) -> Argument:
        """What a line tells of it last: `out` where there is one."""
        return self.out or self

    def marked(self, mark: str) -> None:
        """Put `mark` behind its text."""
        self.text += mark
        self.shown += mark


def string_argument(of: str, data: bytes, limit: int, *, cut: bool = False) -> Argument:
    """Return an argument that is the string `data`."""
    text = escape.string(data, limit, cut=cut)
    return Argument(of, text, escape.value(data), cut=cut, data=data)


def wide_argument(of: str, data: bytes, limit: int, *, cut: bool = False) -> Argument:
    """Return an argument that is the wide string `data`."""
    text, value = escape.wide_string(data, limit, cut=cut)
    return Argument(of, text, value, cut=text.endswith("..."))
