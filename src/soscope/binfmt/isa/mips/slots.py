# SPDX-License-Identifier: Apache-2.0
"""Slots on MIPS, which no relocation fills.

From the symbol DT_MIPS_GOTSYM on, each dynamic symbol has one word of the GOT, in the order of
the symbols. DT_MIPS_LOCAL_GOTNO other words stand before them. The loader fills all these words.
The word of a function with a stub keeps the stub's address until the first call (MIPS psABI,
"Global Offset Table"; glibc, sysdeps/mips/dl-machine.h: elf_machine_got_rel).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filled import Filled
from soscope.binfmt.elf.reader import ElfReader
from soscope.errors import FormatError
from soscope.model.arch import GOT_WORD, STUBBED_GOT_WORD, Arch

DT_MIPS_LOCAL_GOTNO = 0x7000000A
DT_MIPS_SYMTABNO = 0x70000011
DT_MIPS_GOTSYM = 0x70000013

SHORTER = 0x0600_0000  # e_flags: EF_MIPS_ARCH_ASE_MICROMIPS, EF_MIPS_ARCH_ASE_M16
STO_MIPS_PLT = 8  # st_other: the value is the address of a PLT entry
_MAX_BYTES = 1 << 28


class GotWord(NamedTuple):
    """One word of the GOT: `kind` as in model/arch.py, `symbol` an index into DT_SYMTAB.

    `helper` is the address of the stub that it leads to before it is bound, 0 if it has none.
    """

    vaddr: int
    kind: int
    symbol: int
    helper: int


def first_word(image: ElfReader) -> tuple[int, int, int] | None:
    """Return (vaddr of the word of symbol `first`, first, end), None if there is no such GOT."""
    tags = image.dynamic
    got, local = tags.get(c.DT_PLTGOT), tags.get(DT_MIPS_LOCAL_GOTNO)
    first, end = tags.get(DT_MIPS_GOTSYM), tags.get(DT_MIPS_SYMTABNO)
    if got is None or local is None or first is None or end is None:
        return None
    return got + local * image.encoding.word.size, first, end


def unlike(image: ElfReader) -> str:
    """Return why the calls of an image have forms that soscope does not know, "" if they do not."""
    flags = image.header.flags if image.header is not None else 0
    return "some of its code is MIPS16 or microMIPS" if flags & SHORTER else ""


def counted(image: ElfReader) -> tuple[int, int, int, dict[int, int]] | None:
    """Return the data by which the loader finds the lazy words of the GOT; None if there is no GOT.

    It is (address of the first word, number of words, address of the number of words before it,
    stub that each lazy word leads to), all link-time addresses.
    """
    where = first_word(image)
    dynamic = next((each for each in image.segments if each.type == c.PT_DYNAMIC), None)
    if where is None or dynamic is None:
        return None
    start, first, end = where
    tags = [tag for tag, _ in image.dynamic.entries]
    place = dynamic.vaddr + tags.index(DT_MIPS_LOCAL_GOTNO) * image.encoding.dynamic.size
    helpers = {word.vaddr: word.helper for word in read(image, []) if word.helper}
    return start, end - first, place + image.encoding.word.size, helpers


def more(
    image: ElfReader, _found: Iterable[Filled], _arch: Arch, partial: list[str]
) -> tuple[list[Filled], dict[int, int]]:
    """Return the words of the GOT that are slots, and the stubs to which the lazy ones lead."""
    words = read(image, partial)
    slots = [
        Filled(word.vaddr, word.kind, word.symbol, 0, word.symbol if word.helper else -1)
        for word in words
    ]
    return slots, {word.vaddr: word.helper for word in words if word.helper}


def read(image: ElfReader, partial: list[str]) -> list[GotWord]:
    """Return the words of the GOT that have symbols; report what is missing in `partial`."""
    where = first_word(image)
    if where is None or where[1] >= where[2]:
        return []
    start, first, end = where
    coding = image.encoding
    step, word = coding.symbol.size, coding.word
    try:
        at = image.locate_pointer(c.DT_SYMTAB)
    except FormatError as error:
        partial.append(str(error))
        return []
    if at is None:
        partial.append("no DT_SYMTAB: the words of the GOT have no symbols")
        return []
    wanted = (end - first) * step
    symbols = image.source.read(at + first * step, min(wanted, _MAX_BYTES))
    if len(symbols) < wanted:
        partial.append(
            f"DT_MIPS_SYMTABNO: symbols at offset {at + first * step:#x}:"
            f" {wanted} bytes expected, {len(symbols)} found"
        )
        symbols = symbols[: len(symbols) // step * step]
    count = len(symbols) // step
    try:
        words = image.source.read(image.locate(start), count * word.size)
    except FormatError:
        words = b""
    if len(words) < count * word.size:
        partial.append(
            f"GOT at vaddr {start:#x}: {count * word.size} bytes expected, {len(words)} found"
        )
    got_words = []
    for index, raw in enumerate(coding.symbol.iter_unpack(symbols)):
        if coding.bits == 64:
            _, info, other, section, value, _ = raw
        else:
            _, value, _, info, other, section = raw
        place = index * word.size
        content = word.unpack_from(words, place)[0] if place + word.size <= len(words) else value
        helper = 0
        if info & 15 == c.STT_FUNC:
            if section == c.SHN_UNDEF:
                helper = 0 if other & STO_MIPS_PLT else value
            elif content != value and section != c.SHN_COMMON:
                helper = content
        kind = STUBBED_GOT_WORD if helper else GOT_WORD
        got_words.append(GotWord(start + place, kind, first + index, helper))
    return got_words
