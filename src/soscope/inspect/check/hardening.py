# SPDX-License-Identifier: Apache-2.0
"""Find what would make an ELF file harder to attack."""

from __future__ import annotations

from collections.abc import Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.sections import features
from soscope.errors import FormatError
from soscope.inspect.check.fault import REMARK, Fault
from soscope.model.filemap import LAZY

_PT_GNU_STACK = 0x6474E551
_RUNS = ("executable", "pie", "shared", "static", "static-pie")


def check_hardening(mapped: ElfMap, *, branches: bool) -> Iterator[Fault]:
    """Yield remarks on one file; if `branches`, also on features that few files have."""
    if mapped.kind not in _RUNS or mapped.is_hollow:
        return
    try:
        dynamic = mapped.image.dynamic
    except FormatError:
        return
    if dynamic.get(c.DT_TEXTREL) is not None or (dynamic.get(c.DT_FLAGS) or 0) & c.DF_TEXTREL:
        yield Fault("text-relocations", REMARK, "the loader has to write into its code")
    yield from _writable(mapped)
    if branches:
        yield from _branches(mapped)


def _writable(mapped: ElfMap) -> Iterator[Fault]:
    segments = mapped.image.segments
    page = mapped.machine.pages[0] if mapped.machine is not None else 1
    relro = [segment for segment in segments if segment.type == c.PT_GNU_RELRO]
    if mapped.slots and not relro:
        yield Fault("no-relro", REMARK, "its slots can be written to while it runs: no RELRO")
    elif mapped.slots:
        # The loader protects whole pages, so the last page of RELRO stays writable if RELRO ends
        # within it (glibc elf/dl-reloc.c, _dl_protect_relro); with larger pages, more of it does.
        ends = [(seg.vaddr + seg.memsz) & -page for seg in relro]
        open_ones = [
            slot
            for slot in mapped.slots
            if not any(seg.vaddr <= slot.vaddr < end for seg, end in zip(relro, ends, strict=True))
        ]
        lazy = sum(slot.binding == LAZY for slot in open_ones)
        if open_ones:
            how = f"{lazy:,} of them lazy" if lazy else "RELRO leaves them out"
            yield Fault(
                "writable-got",
                REMARK,
                f"{len(open_ones):,} of {len(mapped.slots):,} slots can be written to while it"
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
    stacks = [segment for segment in segments if segment.type == _PT_GNU_STACK]
    if any(stack.flags & c.PF_X for stack in stacks):
        yield Fault("executable-stack", REMARK, "it asks for a stack that can be run")
    elif not stacks:
        # what that means depends on the processor, the kernel and the loader
        text = "it says nothing of its stack (no PT_GNU_STACK): some loaders let it be run"
        yield Fault("unsaid-stack", REMARK, text)


def _branches(mapped: ElfMap) -> Iterator[Fault]:
    if mapped.machine is None:
        return
    try:
        has = features(mapped.image)
    except FormatError:
        return
    for _, name, words in mapped.machine.features[1]:
        if name not in has:
            yield Fault(f"no-{name.lower()}", REMARK, f"not made for {words}")
