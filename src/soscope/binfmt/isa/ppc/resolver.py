# SPDX-License-Identifier: Apache-2.0
"""The path of an unbound slot to the resolver on PowerPC, found without symbols.

    stub ─► slot ─► its branch in .glink ─► PLTresolve ─► .plt[0] or got[1]: the resolver ─► bctr

glibc: sysdeps/powerpc/powerpc{32,64}/dl-trampoline.S, dl-machine.h.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.isa.ppc import slots
from soscope.binfmt.isa.ppc.stubs32 import DT_PPC_GOT
from soscope.binfmt.stubs.words import big_endian, numbers
from soscope.errors import FormatError

_BCTR = 0x4E800420
_NOP = 0x60000000
_MOST = 400  # bytes of a resolver's trampoline


def branches(mapped: ElfMap) -> dict[int, int]:
    """Return slot -> its branch in .glink, to which it leads when unbound (link-time addresses).

    These branches exist even if the loader binds all slots at once.
    """
    machine = mapped.machine
    calls = [slot.vaddr for slot in mapped.slots if slot.stubs and slot.kind.endswith("JMP_SLOT")]
    if machine is None:
        return {}
    if machine.bits == 64:
        return slots.helpers_of(mapped.image, calls)
    if mapped.tag(DT_PPC_GOT) is None:
        return {}
    word = mapped.image.encoding.word
    unbound = {}
    for vaddr in calls:
        try:
            (unbound[vaddr],) = word.unpack(mapped.image.read(vaddr, word.size, "slot"))
        except FormatError:
            continue  # no bytes in the file: the loader fills it otherwise
    return unbound


def resolver_word(mapped: ElfMap) -> int | None:
    """Return the link-time address of the word with the resolver's address, None if none exists.

    The loader writes that address.
    """
    machine = mapped.machine
    if machine is not None and machine.bits == 64:
        return mapped.tag(c.DT_PLTGOT)
    got = mapped.tag(DT_PPC_GOT)
    return None if got is None else got + mapped.image.encoding.word.size


def end_of_resolver(code: bytes, order: str) -> int | None:
    """Return the offset of a resolver's jump to the function from its start, None if unknown."""
    words = numbers(big_endian(code[:_MOST], order)).tolist()
    return 4 * words.index(_BCTR) if _BCTR in words else None


def way_on(code: bytes, order: str) -> int | None:
    """Return the distance from a branch in .glink to its target; None if it must run itself.

    The last branches are nops in front of a branch, or in front of the code that the branches
    lead to. A thread that runs such nops passes other slots' branches.
    """
    for index, word in enumerate(numbers(big_endian(code, order))):
        if word >> 26 == 18 and not word & 3:
            distance = word & 0x03FF_FFFC
            return 4 * index + distance - ((distance & 0x0200_0000) << 1)
        if word != _NOP:
            return 4 * index or None
    return None
