# SPDX-License-Identifier: Apache-2.0
"""Words that the loader adds the load bias to: which address each of them has in the end.

Relocations without a symbol say so (R_*_RELATIVE); the address is the entry's addend, or stands in
the word already (REL; DT_RELR, which has no entry for each).
"""

from __future__ import annotations

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.relocations import entries, tables


def relative_words(image: ElfImage) -> dict[int, int]:
    """Return vaddr -> link-time address, of the words whose relocation has an addend.

    Raises FormatError where the relocations are not all there.
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
