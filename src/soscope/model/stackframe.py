# SPDX-License-Identifier: Apache-2.0
"""A frame of a stack, as people read it."""

from __future__ import annotations

from soscope.model.record import Record

OwnFrame = tuple[str, str | None, int | None]  # of an interpreter: function, file, line


class StackFrame(Record):
    """A return address. What is not known is None; `offset` is that into `symbol`, or the image.

    `image` is its name.
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
