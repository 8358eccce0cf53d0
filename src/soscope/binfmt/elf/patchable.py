# SPDX-License-Identifier: Apache-2.0
"""Functions that were compiled with room for a call at their entry.

-fpatchable-function-entry=N of gcc and clang leaves N bytes of no-operations at each function, and
lists their addresses in the section `__patchable_function_entries`: one word each, 0 for a
function that the linker has left out. With N,M they begin M bytes before the function.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.relative import relative_words
from soscope.binfmt.elf.sections import Sections

SECTION = "__patchable_function_entries"
_MAX_TABLE = 1 << 28  # bytes


def patchable_entries(image: ElfImage, sections: Sections) -> list[int]:
    """Return the link-time addresses of the first no-operation of each function, by address.

    Empty without such a section: only section headers say where the list is. Raises FormatError
    where it, or what the loader makes of it, is damaged.
    """
    # linkers may leave one section for each file that they were given
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
