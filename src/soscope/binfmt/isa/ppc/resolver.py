# SPDX-License-Identifier: Apache-2.0
"""The way of an unbound slot to the resolver on PowerPC, and out of it; no symbol is needed.

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
    """Return where slots would lead unbound, by slot: link-time addresses of branches in .glink.

    Those are there, too, where the loader binds all slots at once.
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
            continue  # it is not in the file, so its loader fills it otherwise
    return unbound


def resolver_word(mapped: ElfMap) -> int | None:
    """Return the link-time address of the word in which the loader leaves the resolver's address.

    None where there is none.
    """
    machine = mapped.machine
    if machine is not None and machine.bits == 64:
        return mapped.tag(c.DT_PLTGOT)
    got = mapped.tag(DT_PPC_GOT)
    return None if got is None else got + mapped.image.encoding.word.size


def end_of_resolver(code: bytes, order: str) -> int | None:
    """Return how far behind a resolver's beginning it jumps to the function, None: unknown."""
    words = numbers(big_endian(code[:_MOST], order)).tolist()
    return 4 * words.index(_BCTR) if _BCTR in words else None


def way_on(code: bytes, order: str) -> int | None:
    """Return how far from a branch in .glink its target is; None: it has to run as it is.

    The last ones are nops in front of a branch, or of what the branches lead to: a thread that ran
    them would come by others.
    """
    for index, word in enumerate(numbers(big_endian(code, order))):
        if word >> 26 == 18 and not word & 3:
            distance = word & 0x03FF_FFFC
            return 4 * index + distance - ((distance & 0x0200_0000) << 1)
        if word != _NOP:
            return 4 * index or None
    return None
