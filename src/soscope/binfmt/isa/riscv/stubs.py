# SPDX-License-Identifier: Apache-2.0
"""Stubs on RISC-V, 32 and 64 bits, and the GOT of a file without section headers."""

from __future__ import annotations

import re

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Stretches
from soscope.binfmt.stubs.finder import Code, Decoder, FoundStub, SlotTable
from soscope.binfmt.stubs.sites import JUMP, PASS, SiteInStub
from soscope.errors import FormatError
from soscope.model.arch import Arch
from soscope.model.filemap import FileSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Find the GOT in a RISC-V file that has no section headers.
#
# Words of the GOT and all other pointers have the same relocation type. But the GOT of GNU ld and
# LLD begins with the address of the dynamic section, which is normally nowhere else in a file. And
# it is dense: each following word has a relocation. mold puts that address before the slots of
# functions, and the GOT at the end of the part that is read-only after relocation.

_PIECE = 1 << 24  # bytes of a segment that are searched for the start of the GOT
_MAX_BYTES = 1 << 28
_MODULES = (6, 7)  # R_RISCV_TLS_DTPMOD32 and 64


def find_got(image: ElfImage) -> tuple[int, int]:
    """Return the vaddr behind the GOT's first word, and the GOT's end; (0, 0) if not found.

    If several words have the address of the dynamic section, take the word with the most
    relocations behind it.
    """
    dynamic = next((segment for segment in image.segments if segment.type == c.PT_DYNAMIC), None)
    if dynamic is None:
        return 0, 0
    word = image.encoding.word
    wanted = word.pack(dynamic.vaddr)
    relocated = _relocated(image)
    best = (0, 0)
    read = Stretches()
    for segment in image.segments:
        if segment.type != c.PT_LOAD or not segment.flags & c.PF_W:
            continue
        stop = segment.offset + min(segment.filesz, _PIECE)
        for start, end in read.add(segment.offset, stop):
            data = image.source.read(start, end - start)
            at = data.find(wanted)
            while at >= 0:
                vaddr = segment.vaddr + start - segment.offset + at
                is_inside = 0 <= vaddr - dynamic.vaddr < dynamic.memsz
                if not vaddr % word.size and not is_inside and vaddr not in relocated:
                    run = _run(vaddr + word.size, data, at + word.size, relocated, word.size)
                    best = max(best, run, key=lambda stretch: stretch[1] - stretch[0])
                    # any word within this run leads to the same end
                    at = max(at, at + run[1] - run[0])
                at = data.find(wanted, at + 1)
    return best if best[1] > best[0] else _last_run(image, relocated)


def _last_run(image: ElfImage, relocated: set[int]) -> tuple[int, int]:
    """Return the last words of PT_GNU_RELRO that are relocated without a gap, (0, 0) if none."""
    relro = next((segment for segment in image.segments if segment.type == c.PT_GNU_RELRO), None)
    if relro is None:
        return 0, 0
    size = image.encoding.word.size
    start = max((vaddr for vaddr in relocated if 0 <= vaddr - relro.vaddr < relro.memsz), default=0)
    end = start + size
    while start - size in relocated:
        start -= size
    return (start, end) if start else (0, 0)


def _run(vaddr: int, data: bytes, at: int, relocated: set[int], size: int) -> tuple[int, int]:
    """Return start and end of a run of relocated words.

    A zero word in front of a relocated word belongs to the run.
    """
    start, zero = vaddr, bytes(size)
    while at < len(data):
        if vaddr not in relocated and (
            data[at : at + size] != zero or vaddr + size not in relocated
        ):
            break
        vaddr += size
        at += size
    return start, vaddr


def _relocated(image: ElfImage) -> set[int]:
    """Return every vaddr that a relocation of any type fills.

    A word that holds its own address is left out: it is __dso_handle, which begins the data
    behind the GOT. The word behind a module number is included: it is an offset in the module's
    thread-local storage.
    """
    size = image.dynamic.get(c.DT_RELASZ) or 0
    layout = image.encoding.rela
    try:
        at = image.locate_pointer(c.DT_RELA)
    except FormatError:
        return set()
    if at is None:
        return set()
    data = image.source.read(at, min(size, _MAX_BYTES))
    whole = memoryview(data)[: len(data) // layout.size * layout.size]
    relocated = set()
    for vaddr, info, addend in layout.iter_unpack(whole):
        if addend != vaddr:
            relocated.add(vaddr)
        if info & 0xFF in _MODULES:
            relocated.add(vaddr + image.encoding.word.size)
    return relocated


# The argument that an unbound slot passes to the lazy resolver on RISC-V.
#
# PLT0 and the resolver compute it from the address of the stub. glibc:
# sysdeps/riscv/dl-trampoline.S.

_LAZY_STUB = 16  # bytes
_FIRST = 32  # bytes of PLT0


def argument_of(mapped: ElfMap, slot: FileSlot, helper: int) -> int | None:
    """Return the argument that the resolver gets at the first call; the slot leads to `helper`.

    Return None if the file does not give it, or if the code has an unknown form.
    """
    if not slot.stubs:
        return None
    entry = mapped.image.encoding.rela.size
    return (slot.stubs[0].vaddr - helper - _FIRST) * entry // _LAZY_STUB


# Call sites in stubs of RISC-V: at the jump, when t3 has the function's address.

_JUMP = re.compile(rb"(?:.{4})*?\x67\x03\x0e\0", re.DOTALL)  # jalr t1, t3


def place(code: bytes, _order: str) -> SiteInStub:
    """Return the call site in a stub: the instruction that all its calls run."""
    jump = _JUMP.match(code)
    return SiteInStub(0, PASS) if jump is None else SiteInStub(jump.end() - 4, JUMP)


# Stubs on RISC-V, 32 and 64 bits, as GNU ld, LLD and mold write them; all have one form.
#
# RISC-V ELF psABI, "Procedure Linkage Table". A stub addresses its slot by the distance from its
# own first instruction.

_PLACES = (".plt", ".iplt")

# [lpad 0] auipc t3, high; ld (or lw) t3, low(t3); jalr t1, t3; [nop]
_STUB = re.compile(
    rb"(?=((?:\x17\0{3})?"
    rb"(\x17[\x0e\x1e\x2e\x3e\x4e\x5e\x6e\x7e\x8e\x9e\xae\xbe\xce\xde\xee\xfe]..)"
    rb"(\x03[\x2e\x3e][\x0e\x1e\x2e\x3e\x4e\x5e\x6e\x7e\x8e\x9e\xae\xbe\xce\xde\xee\xfe].)"
    rb"\x67\x03\x0e\0(?:\x13\0{3})?))",
    re.DOTALL,
)


def decoder(_arch: Arch) -> Decoder:
    """Return the decoder of stubs."""
    return Decoder(_find, _PLACES)


def _find(code: Code, table: SlotTable) -> Iterator[FoundStub]:
    """Yield the stubs in a range of code."""
    data, base, slots = code.data, code.vaddr, table.slots
    is_plt = code.section is not None
    mask = (1 << table.image.encoding.bits) - 1
    last = -1
    for match in _STUB.finditer(data):
        start = base + match.start()
        if start & 3 or match.end(1) == last:
            continue
        high = int.from_bytes(match[2], "little", signed=True) & ~0xFFF
        low = int.from_bytes(match[3], "little", signed=True) >> 20
        slot = base + match.start(2) + high + low & mask
        if slot in slots or is_plt:
            last = match.end(1)
            yield FoundStub(start, last - match.start(), slot, table.kind(code, slot))
