# SPDX-License-Identifier: Apache-2.0
"""All stubs of an ELF image: which decoder, and which code it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.header import Header
from soscope.binfmt.elf.machines import (
    EF_ARM_BE8,
    EM_ARM,
    EM_MIPS,
    EM_PPC,
    EM_PPC64,
    EM_RISCV,
    EM_S390,
)
from soscope.binfmt.elf.sections import Section, Sections
from soscope.binfmt.elf.stretches import Stretches
from soscope.binfmt.stubs.table import Code, Found, SlotTable
from soscope.model.filemap import Stub

_PIECE = 1 << 24  # bytes of code at once
_OVERLAP = 256  # longer than any stub
_AGAIN = 1 << 20  # bytes of code that may lie at several addresses

Decoder = Callable[[Code, SlotTable], Iterable[Found]]


def decoder_of(machine: int) -> tuple[Decoder, tuple[str, ...]] | None:
    """Return the decoder for e_machine, and how names of sections begin that hold stubs alone.

    None where there is no decoder. A decoder is imported when it is needed.
    """
    if machine == c.EM_X86_64:
        from soscope.binfmt.stubs import x86_64

        return x86_64.find, x86_64.PLACES
    if machine == c.EM_386:
        from soscope.binfmt.stubs import i386

        return i386.find, i386.PLACES
    if machine == c.EM_AARCH64:
        from soscope.binfmt.stubs import aarch64

        return aarch64.find, aarch64.PLACES
    if machine == EM_ARM:
        from soscope.binfmt.stubs import arm

        return arm.find, arm.PLACES
    if machine == EM_RISCV:
        from soscope.binfmt.stubs import riscv

        return riscv.find, riscv.PLACES
    if machine == EM_S390:
        from soscope.binfmt.stubs import s390x

        return s390x.find, s390x.PLACES
    if machine == EM_MIPS:
        from soscope.binfmt.stubs import mips

        return mips.find, mips.PLACES
    if machine == EM_PPC:
        from soscope.binfmt.stubs import ppc

        return ppc.find, ppc.PLACES
    if machine == EM_PPC64:
        from soscope.binfmt.stubs import ppc64

        return ppc64.find, ppc64.PLACES
    return None


def find_stubs(table: SlotTable, sections: Sections) -> list[Stub]:
    """Return the stubs of an image by rising address; some may lead through what is no slot.

    Without section headers, or where they lead to none although functions are called, all code
    is searched; then a stub that leads through no slot is not told from other code.
    """
    decoder = decoder_of(table.machine)
    if decoder is None:
        return []
    find, places = decoder
    found: dict[int, Stub] = {}
    new = tuple.__new__  # there are many
    for code in _code_of(table, _sections_of(sections, places)):
        section = code.section
        stubs = {
            vaddr: new(Stub, (vaddr, size, section, kind, slot, None))
            for vaddr, size, slot, kind in find(code, table)
        }
        if len(found) < len(stubs):
            found = stubs | found
        else:
            for vaddr, stub in stubs.items():
                found.setdefault(vaddr, stub)
    if not found and table.slots and (table.calls or not sections.all):
        for code in all_code(table):
            for one in find(code, table):
                if one.slot in table.slots and one.vaddr not in found:
                    found[one.vaddr] = _stub(one, sections)
    if table.machine == EM_PPC:
        from soscope.binfmt.stubs.ppc import in_place

        for one in in_place(table):
            found.setdefault(one.vaddr, _stub(one, sections))
    return _whole([found[vaddr] for vaddr in sorted(found)])


def _stub(one: Found, sections: Sections) -> Stub:
    section = sections.containing(one.vaddr)
    return Stub(one.vaddr, one.size, None if section is None else section.name, one.kind, one.slot)


def _whole(stubs: list[Stub]) -> list[Stub]:
    """Leave out the rest of a stub that the beginning of a piece of code has cut."""
    found = []
    end = last = 0
    for one in stubs:
        vaddr, size, _, _, slot, _ = one
        if vaddr + size > end or slot != last:
            found.append(one)
        end, last = vaddr + size, slot
    return found


def _sections_of(sections: Sections, places: tuple[str, ...]) -> list[Section]:
    """Return the sections that may hold stubs; all code where linkers put them anywhere."""
    return [
        one
        for one in sections.all
        if one.flags & c.SHF_EXECINSTR
        and one.type != c.SHT_NOBITS
        and (not places or one.name.startswith(places))
    ]


def _code_of(table: SlotTable, sections: list[Section]) -> Iterator[Code]:
    return _once(table, ((one.vaddr, one.offset, one.size, one.name) for one in sections))


def all_code(table: SlotTable) -> Iterator[Code]:
    """Give all code of the segments that may be executed, without names of sections."""
    return _once(
        table,
        (
            (one.vaddr, one.offset, one.filesz, None)
            for one in table.image.segments
            if one.type == c.PT_LOAD and one.flags & c.PF_X
        ),
    )


def _once(
    table: SlotTable, stretches: Iterable[tuple[int, int, int, str | None]]
) -> Iterator[Code]:
    """Give stretches of code, (vaddr, offset, size, name), but what several have only once.

    The same bytes at another address are other code; there is little of that, if any.
    """
    room = _AGAIN
    given: dict[int, Stretches] = {}
    read = Stretches()
    for vaddr, offset, size, name in stretches:
        bias = vaddr - offset
        for start, end in given.setdefault(bias, Stretches()).add(offset, offset + size):
            parts = read.add(start, end)
            again = end - start - sum(last - first for first, last in parts)
            if again <= room:
                room -= again
                parts = [(start, end)]
            else:
                table.say("code: the same bytes lie at several addresses, not all of them are read")
            for first, last in parts:
                yield from _pieces(table, bias + first, first, last - first, name)


def _pieces(
    table: SlotTable, vaddr: int, offset: int, size: int, section: str | None
) -> Iterator[Code]:
    """Give a stretch of code in pieces that overlap; nothing of what the file does not hold."""
    at = 0
    while at < size:
        data = table.image.source.read(offset + at, min(_PIECE + _OVERLAP, size - at))
        if not data:
            return
        yield Code(vaddr + at, data, section)
        at += _PIECE


def missing_decoder(header: Header | None) -> str:
    """Say why the stubs of a file cannot be told, "" where they can."""
    number = header.machine if header else 0
    if header is None or decoder_of(number) is None:
        return f"no decoder of stubs for e_machine {number}"
    if number == EM_S390 and header.encoding.bits == 32:
        return "no decoder of stubs for s390 with 31 bits"
    if number == EM_ARM and header.encoding.order == ">" and not header.flags & EF_ARM_BE8:
        return "no decoder of stubs for ARM code that is stored big end first (BE32)"
    return ""
