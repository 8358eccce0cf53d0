# SPDX-License-Identifier: Apache-2.0
"""External relocations of images from before LC_DYLD_INFO: pointers in data, by symbol."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.macho import constants as c
from soscope.binfmt.macho import ordinals
from soscope.binfmt.macho.image import MachoImage
from soscope.binfmt.macho.records import EXTERNAL_RELOCATION, Bind, Ranges
from soscope.binfmt.macho.symbols import MachoSymbols
from soscope.errors import FormatError
from soscope.model.arch import CPU_PPC64

_SCATTERED = 0x80000000


def external_relocations(
    image: MachoImage, symbols: MachoSymbols, wanted: Ranges
) -> Iterator[Bind]:
    """Yield the external relocations at `wanted` addresses."""
    if not image.dysymtab:
        return
    offset, count = image.dysymtab[14:16]
    try:
        data = image.table(offset, count * 8, "external relocations")
    except FormatError as error:
        image.missed(error)
        return
    big = image.encoding.order == ">"
    base = _base(image)
    words = image.encoding.u32.iter_unpack(data)
    for (address,), (word,) in zip(words, words, strict=False):
        if address & _SCATTERED and image.encoding.bits == 32:
            continue
        number = word >> 8 if big else word & 0xFFFFFF
        external = word >> 4 & 1 if big else word >> 27 & 1
        place = base + address & (1 << image.encoding.bits) - 1
        if not external or not wanted.has(place):
            continue
        row = symbols.row(number)
        if row is None:
            image.miss(f"external relocations: symbol {number} of {len(symbols)}")
            continue
        ordinal = ordinals.of_symbol(row.description)
        if not image.header.flags & c.MH_TWOLEVEL:
            ordinal = ordinals.FLAT_LOOKUP
        weak = bool(row.description & c.N_WEAK_REF)
        yield Bind(place, symbols.name(row), ordinal, EXTERNAL_RELOCATION, 0, weak)


def _base(image: MachoImage) -> int:
    """Return the base of the addresses in relocations, by dyld's rules.

    It is the first segment, except in three cases, in which it is the first writable segment: on
    x86_64, in images whose segments may move apart, and in ppc64 images that extend beyond the 32
    bits of such an address.
    """
    first = image.segments[0].vaddr if image.segments else 0
    written = [segment for segment in image.segments if segment.protection & c.VM_PROT_WRITE]
    if image.header.cpu == CPU_PPC64:
        apart = any(segment.vaddr + segment.size - first > 1 << 32 for segment in written)
    else:
        apart = image.encoding.bits == 64 or bool(image.header.flags & c.MH_SPLIT_SEGS)
    return written[0].vaddr if written and apart else first
