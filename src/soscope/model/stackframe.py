# SPDX-License-Identifier: Apache-2.0
"""A frame of a stack, with names in place of addresses."""

from __future__ import annotations

from soscope.model.record import Record

OwnFrame = tuple[str, str | None, int | None]  # frame of an interpreter: function, file, line


class StackFrame(Record):
    """A return address with its names; unknown fields are None.

    `image` is the image's name. `offset` counts from the start of `symbol`; without a symbol,
    from the start of the image.
    """

    __slots__ = ("file", "image", "line", "offset", "symbol")

    def __init__(
        self,
        image: str | None,
        symbol: str | None,
        offset: int | None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        self.image = image
        self.symbol = symbol
        self.offset = offset
        self.file = file
        self.line = line
