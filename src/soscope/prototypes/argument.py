# SPDX-License-Identifier: Apache-2.0
"""One argument or result, ready to be printed."""

from __future__ import annotations

from soscope.model.record import Record

UNKNOWN_TYPE = "?"
REST = "..."


class Argument(Record):
    """`type` as C writes it ("?" for a guessed word), `text` as a line of a trace shows it.

    `value` is the number, the string (UTF-8, other bytes as \\xNN) or None where there is no
    single one. Behind the last argument that is known, type and text are "..." where a
    variadic call has more. Of a string, `cut` says that `value` is its beginning alone; `data`
    are the bytes that `value` stands for, None where it is no string of bytes.
    """

    __slots__ = ("cut", "data", "text", "type", "value")

    def __init__(
        self,
        of: str,
        text: str,
        value: float | str | None,
        *,
        cut: bool = False,
        data: bytes | None = None,
    ) -> None:
        self.type = of
        self.text = text
        self.value = value
        self.cut = cut
        self.data = data
