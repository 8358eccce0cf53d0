# SPDX-License-Identifier: Apache-2.0
"""Find the GOT in a RISC-V file that has no section headers.

Words of the GOT and all other pointers have the same relocation type. But the GOT of GNU ld and
LLD begins with the address of the dynamic section, which is normally nowhere else in a file. And
it is dense: each following word has a relocation. mold puts that address before the slots of
functions, and the GOT at the end of the part that is read-only after relocation.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.stretches import Stretches
from soscope.errors import FormatError

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
