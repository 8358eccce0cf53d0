# SPDX-License-Identifier: Apache-2.0
"""Functions that were compiled with room for a call at their entry.

-fpatchable-function-entry=N of gcc and clang puts N bytes of no-operations at each function's
entry. It lists their addresses in the section `__patchable_function_entries`, one word each, 0
for a function that the linker has removed. With N,M they begin M bytes before the function.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.relative import relative_words
from soscope.binfmt.elf.sections import Sections

SECTION = "__patchable_function_entries"
_MAX_TABLE = 1 << 28  # bytes


def patchable_entries(image: ElfImage, sections: Sections) -> list[int]:
    """Return the link-time address of the first no-operation of each function, sorted.

    The list is empty without such a section, because only section headers lead to it. Raises
    FormatError if the section, or the relocations for it, are damaged.
    """
    # linkers may keep one section for each input file
    lists = [
        section
        for section in sections.all
        if section.name == SECTION and section.type != c.SHT_NOBITS
    ]
    if not lists:
        return []
    word = image.encoding.word
    moved = relative_words(image)
    entries = set()
    for section in lists:
        data = sections.data(section, _MAX_TABLE)
        data = data[: len(data) // word.size * word.size]
        for place, (value,) in enumerate(word.iter_unpack(data)):
            entries.add(moved.get(section.vaddr + place * word.size, value))
    return sorted(entries - {0})
