# SPDX-License-Identifier: Apache-2.0
"""What an image says of itself in strings: in its constants, and in what its data begins with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError

_PIECE = 1 << 22
_OVERLAP = 256


def pieces_of(image: ElfImage) -> Iterator[bytes]:
    """Give the loaded parts as the file has them.

    Large ones come in pieces that share some bytes: nothing short lies between two.
    """
    for segment in image.segments:
        if segment.type != c.PT_LOAD:
            continue
        for at in range(0, segment.filesz, _PIECE):
            size = min(_PIECE + _OVERLAP, segment.filesz - at)
            try:
                yield image.source.read(segment.offset + at, size)
            except (OSError, FormatError):
                break  # the file is shorter than its segments say


def said(image: ElfImage, pattern: re.Pattern[bytes]) -> str:
    """Return what the pattern's first group is in an image.

    "" where nothing matches, and where several different things do: one of them would be a
    guess.
    """
    names: set[bytes] = set()
    for data in pieces_of(image):
        names.update(pattern.findall(data))
        if len(names) > 1:
            return ""
    return names.pop().decode("ascii", "replace") if names else ""
