# SPDX-License-Identifier: Apache-2.0
"""One argument or result, formatted for printing."""

from __future__ import annotations

from soscope.model.image import Record
from soscope.prototypes import escape

UNKNOWN_TYPE = "?"
REST = "..."


class Argument(Record):
    """`name` of the parameter, `type` as C writes it ("?" for a guessed word), `text` and `value`.

    All these are for the value that was passed. `out` is the same for the data that the call has
    written where the argument points, None if it has written nothing. `shown` is the text for
    both in a line of a trace.

    `name` is "" if there is none. `value` is the number, the string (UTF-8; other bytes as
    hexadecimal escapes), or None if there is no single value. `is_address` tells that the number
    is an address. `guess` tells that the type is not declared. If a variadic call has further
    arguments behind the last known one, type and text are "...". For a string, `cut` tells that
    `value` is only its beginning. `data` are the bytes behind `value`, None if it is not a string
    of bytes.
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
        """The last state of the argument: `out` if there is one, else the argument itself."""
        return self.out or self

    def marked(self, mark: str) -> None:
        """Add `mark` to the end of its texts."""
        self.text += mark
        self.shown += mark


def string_argument(of: str, data: bytes, limit: int, *, cut: bool = False) -> Argument:
    """Return an argument for the string `data`."""
    text = escape.string(data, limit, cut=cut)
    return Argument(of, text, escape.value(data), cut=cut, data=data)


def wide_argument(of: str, data: bytes, limit: int, *, cut: bool = False) -> Argument:
    """Return an argument for the wide string `data`."""
    text, value = escape.wide_string(data, limit, cut=cut)
    return Argument(of, text, value, cut=text.endswith("..."))
