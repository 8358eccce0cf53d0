# SPDX-License-Identifier: Apache-2.0
"""Words to which the loader adds the load bias, and the link-time address in each of them.

These are the words of relocations without a symbol (R_*_RELATIVE). The address is the entry's
addend, or it is in the word already (REL; also DT_RELR, which has no entry for each word).
"""

from __future__ import annotations

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.relocations import entries, tables


def relative_words(image: ElfImage) -> dict[int, int]:
    """Return vaddr -> link-time address of the words whose relocation has an addend.

    Raises FormatError if the relocations are cut.
    """
    arch = image.header.arch if image.header is not None else None
    kind = arch.relocations.relative if arch is not None else 0
    if arch is None or not kind or arch.has_split_info:
        return {}
    coding = image.encoding
    mask, all_bits = 0xFFFF_FFFF if coding.bits == 64 else 0xFF, (1 << coding.bits) - 1
    words = {}
    for table in tables(image):
        if not table[2]:
            continue
        data, _ = entries(image, table, (kind,))
        for vaddr, info, addend in coding.rela.iter_unpack(data):
            if info & mask == kind:
                words[vaddr] = addend & all_bits
    return words
