# SPDX-License-Identifier: Apache-2.0
"""Strings in an image: in its constants, and in the first bytes of its data."""

from __future__ import annotations

import re
from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError

_PIECE = 1 << 22
_OVERLAP = 256


def pieces_of(image: ElfImage) -> Iterator[bytes]:
    """Yield the loaded parts, as they are in the file.

    Large parts come in pieces that overlap, so that no short string is cut.
    """
    for segment in image.segments:
        if segment.type != c.PT_LOAD:
            continue
        for at in range(0, segment.filesz, _PIECE):
            size = min(_PIECE + _OVERLAP, segment.filesz - at)
            try:
                yield image.source.read(segment.offset + at, size)
            except (OSError, FormatError):
                break  # the file is shorter than its program headers tell


def said(image: ElfImage, pattern: re.Pattern[bytes]) -> str:
    """Return the text that the pattern's first group matches in an image.

    Return "" if nothing matches, or if there are different matches, because a choice would be a
    guess.
    """
    names: set[bytes] = set()
    for data in pieces_of(image):
        names.update(pattern.findall(data))
        if len(names) > 1:
            return ""
    return names.pop().decode("ascii", "replace") if names else ""
