# SPDX-License-Identifier: Apache-2.0
"""Find all stubs of an ELF image: choose the decoder and the code to decode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.header import Header
from soscope.binfmt.elf.sections import Section, Sections
from soscope.binfmt.elf.stretches import Stretches
from soscope.binfmt.isa import part
from soscope.binfmt.stubs.table import Code, Decoder, FoundStub, SlotTable
from soscope.model.filemap import Stub

_PIECE = 1 << 24  # bytes of code in one read
_OVERLAP = 256  # bytes; no stub is longer
_AGAIN = 1 << 20  # bytes of code that may be read at several addresses


def decoder_of(header: Header | None) -> Decoder | None:
    """Return the decoder for a file's machine, None if there is none."""
    arch = header.arch if header is not None else None
    known = part(arch, "stubs")
    if known is None:
        return None
    decoder: Decoder = known.decoder(arch)
    return decoder


def find_stubs(table: SlotTable, sections: Sections) -> list[Stub]:
    """Return the stubs of an image by rising address; some may jump through a word that is no slot.

    All code is searched if there are no section headers, or if they lead to no stubs although
    functions are called. Then stubs without a slot cannot be distinguished from other code.
    """
    decoder = decoder_of(table.image.header)
    if decoder is None:
        return []
    find, places = decoder.find, decoder.places
    by_vaddr: dict[int, Stub] = {}
    new = tuple.__new__  # quicker, as there are many
    for code in _code_of(table, _sections_of(sections, places)):
        section = code.section
        stubs = {
            vaddr: new(Stub, (vaddr, size, section, kind, slot, None))
            for vaddr, size, slot, kind in find(code, table)
        }
        if len(by_vaddr) < len(stubs):
            by_vaddr = stubs | by_vaddr
        else:
            for vaddr, stub in stubs.items():
                by_vaddr.setdefault(vaddr, stub)
    if not by_vaddr and table.slots and (table.calls or not sections.all):
        for code in all_code(table):
            for candidate in find(code, table):
                if candidate.slot in table.slots and candidate.vaddr not in by_vaddr:
                    by_vaddr[candidate.vaddr] = _stub(candidate, sections)
    if decoder.in_place is not None:
        for candidate in decoder.in_place(table):
            by_vaddr.setdefault(candidate.vaddr, _stub(candidate, sections))
    return _whole([by_vaddr[vaddr] for vaddr in sorted(by_vaddr)])


def _stub(stub: FoundStub, sections: Sections) -> Stub:
    section = sections.containing(stub.vaddr)
    return Stub(
        stub.vaddr, stub.size, None if section is None else section.name, stub.kind, stub.slot
    )


def _whole(stubs: list[Stub]) -> list[Stub]:
    """Leave out the rest of a stub that the start of a piece of code has cut."""
    whole = []
    end = last = 0
    for stub in stubs:
        vaddr, size, _, _, slot, _ = stub
        if vaddr + size > end or slot != last:
            whole.append(stub)
        end, last = vaddr + size, slot
    return whole


def _sections_of(sections: Sections, places: tuple[str, ...]) -> list[Section]:
    """Return the sections that may hold stubs, or all code if linkers put them anywhere."""
    return [
        section
        for section in sections.all
        if section.flags & c.SHF_EXECINSTR
        and section.type != c.SHT_NOBITS
        and (not places or section.name.startswith(places))
    ]


def _code_of(table: SlotTable, sections: list[Section]) -> Iterator[Code]:
    return _once(
        table, ((section.vaddr, section.offset, section.size, section.name) for section in sections)
    )


def all_code(table: SlotTable) -> Iterator[Code]:
    """Yield all code of the executable segments, without names of sections."""
    return _once(
        table,
        (
            (segment.vaddr, segment.offset, segment.filesz, None)
            for segment in table.image.segments
            if segment.type == c.PT_LOAD and segment.flags & c.PF_X
        ),
    )


def _once(
    table: SlotTable, stretches: Iterable[tuple[int, int, int, str | None]]
) -> Iterator[Code]:
    """Yield blocks of code (vaddr, offset, size, name); bytes that several share come only once.

    The same bytes at another address are other code. They come again, up to a limit for all of
    them.
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
    """Yield a block of code in pieces that overlap, as far as the file has bytes."""
    at = 0
    while at < size:
        data = table.image.source.read(offset + at, min(_PIECE + _OVERLAP, size - at))
        if not data:
            return
        yield Code(vaddr + at, data, section)
        at += _PIECE


def missing_decoder(header: Header | None) -> str:
    """Return why the stubs of a file cannot be decoded, "" if they can."""
    decoder = decoder_of(header)
    if header is None or decoder is None:
        return f"no decoder of stubs for {'e_machine 0' if header is None else header.arch_name}"
    return decoder.missing(header) if decoder.missing is not None else ""
