# SPDX-License-Identifier: Apache-2.0
"""What would make an ELF file harder to attack."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.properties import BTI, IBT, PAC, SHSTK, aarch64_features, x86_features
from soscope.errors import FormatError
from soscope.inspect.fault import REMARK, Fault
from soscope.model.filemap import LAZY

_PT_GNU_STACK = 0x6474E551
_DT_TEXTREL = 22
_DF_TEXTREL = 4
_PAGE = 4096  # the least there is
_RUNS = ("executable", "pie", "shared", "static", "static-pie")


def check_hardening(found: ElfMap) -> Iterator[Fault]:
    """Give the remarks on one file."""
    if found.kind not in _RUNS or found.is_hollow:
        return
    try:
        dynamic = found.image.dynamic
    except FormatError:
        return
    if dynamic.get(_DT_TEXTREL) is not None or (dynamic.get(c.DT_FLAGS) or 0) & _DF_TEXTREL:
        yield Fault("text-relocations", REMARK, "the loader has to write into its code")
    yield from _writable(found)
    yield from _branches(found)


def _writable(found: ElfMap) -> Iterator[Fault]:
    segments = found.image.segments
    relro = [one for one in segments if one.type == c.PT_GNU_RELRO]
    if found.slots and not relro:
        yield Fault("no-relro", REMARK, "its slots can be written to while it runs: no RELRO")
    elif found.slots:
        # the loader protects whole pages, and leaves a last one that is not (glibc
        # elf/dl-reloc.c, _dl_protect_relro); where pages are larger, even more of them
        ends = [(seg.vaddr + seg.memsz) & -_PAGE for seg in relro]
        open_ones = [
            one
            for one in found.slots
            if not any(seg.vaddr <= one.vaddr < end for seg, end in zip(relro, ends, strict=True))
        ]
        lazy = sum(one.binding == LAZY for one in open_ones)
        if open_ones:
            how = f"{lazy:,} of them lazy" if lazy else "RELRO leaves them out"
            yield Fault(
                "writable-got",
                REMARK,
                f"{len(open_ones):,} of {len(found.slots):,} slots can be written to while it"
                f" runs: {how}",
            )
    for segment in segments:
        if segment.type == c.PT_LOAD and segment.flags & c.PF_W and segment.flags & c.PF_X:
            yield Fault(
                "writable-code",
                REMARK,
                f"the segment at {segment.vaddr:#x} can be written to and run",
                segment.vaddr,
            )
    stacks = [one for one in segments if one.type == _PT_GNU_STACK]
    if any(one.flags & c.PF_X for one in stacks):
        yield Fault("executable-stack", REMARK, "it asks for a stack that can be run")
    elif not stacks:
        # what that means is up to the processor, the kernel and the loader
        text = "it says nothing of its stack (no PT_GNU_STACK): some loaders let it be run"
        yield Fault("unsaid-stack", REMARK, text)


def _branches(found: ElfMap) -> Iterator[Fault]:
    try:
        if found.arch in ("x86-64", "i386"):
            features = x86_features(found.image)
            wanted = ((IBT, "no-ibt", "IBT"), (SHSTK, "no-shstk", "shadow stacks"))
        elif found.arch == "aarch64":
            features = aarch64_features(found.image)
            wanted = ((BTI, "no-bti", "BTI"), (PAC, "no-pac", "return address signing"))
        else:
            return
    except FormatError:
        return
    for bit, slug, name in wanted:
        if not features & bit:
            yield Fault(slug, REMARK, f"not made for {name}")
