# SPDX-License-Identifier: Apache-2.0
"""Stubs on s390x: their slots, their call sites, and the arguments of the resolver."""

from __future__ import annotations

import re

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.stubs.finder import Code, Decoder, FoundStub, SlotTable
from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub
from soscope.model.arch import Arch
from soscope.model.filemap import FileSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The argument that an unbound slot passes to the lazy resolver on s390x.
#
# The stub has it as a constant. glibc: sysdeps/s390/s390-64/dl-trampoline.h.

# basr %r1, %r0; lgf %r1, 12(%r1); jg PLT0; .long argument
_BEHIND = re.compile(rb"\x0d\x10\xe3\x10\x10\x0c\0\x14\xc0\xf4.{4}(.{4})", re.DOTALL)
# mold: larl %r1, slot; lg %r1, 0(%r1); lgfi %r0, argument; br %r1
_LOADED = re.compile(rb"\xc0\x10.{4}\xe3\x10\x10\0\0\x04\xc0\x01(.{4})\x07\xf1", re.DOTALL)


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
    """
    match = _BEHIND.match(mapped.code(helper))
    if match is None and slot.stubs:
        match = _LOADED.match(mapped.code(slot.stubs[0].vaddr))
    return None if match is None else int.from_bytes(match[1], "big")


# Call sites in stubs of s390x: at the jump, when r1 has the function's address.

_JUMP = b"\x07\xf1"  # br %r1
_LOADED_AT = 12  # bytes of the code that loads the slot


def place(code: bytes, _order: str) -> SiteInStub:
    """Return the call site in a stub: the instruction that all its calls run."""
    at = code.find(_JUMP, _LOADED_AT)
    return SiteInStub(0, PASS) if at < 0 else SiteInStub(at, JUMP, len(_JUMP))


# Stubs on s390x, as GNU ld, gold, LLD and mold write them.
#
# ELF ABI s390x Supplement, "Procedure Linkage Table". A stub addresses its slot by the distance in
# halfwords from its own first instruction, in every kind of code.

_PLACES = (".plt", ".iplt")

# larl %r1, slot; lg %r1, 0(%r1); then one of the following
_STUB = re.compile(
    rb"(?=(\xc0\x10(.{4})\xe3\x10\x10\0\0\x04"
    # br %r1; basr %r1, %r0; lgf %r1, 12(%r1); jg PLT0; .long offset of the relocation
    rb"(?:\x07\xf1\x0d\x10\xe3\x10\x10\x0c\0\x14\xc0\xf4.{8}"
    # mold: lgfi %r0, offset; br %r1
    rb"|\xc0\x01.{4}\x07\xf1(?:\x07\0){6}"
    # mold's .plt.got: br %r1; nopr. Without the filling it would be a tail call
    rb"|\x07\xf1\x07\0)))",
    re.DOTALL,
)
_MASK = (1 << 64) - 1


def decoder(_arch: Arch) -> Decoder:
    """Return the decoder of stubs."""
    return Decoder(_find, _PLACES)


def _find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data, base, slots = code.data, code.vaddr, table.slots
    is_plt = code.section is not None
    for match in _STUB.finditer(data):
        start = base + match.start()
        if start & 1:
            continue
        slot = start + 2 * int.from_bytes(match[2], "big", signed=True) & _MASK
        if slot in slots or is_plt:
            yield FoundStub(start, len(match[1]), slot, table.kind(code, slot))
