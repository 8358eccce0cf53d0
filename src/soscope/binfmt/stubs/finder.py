# SPDX-License-Identifier: Apache-2.0
"""Find all stubs of an ELF image with the decoder of its instruction set."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader, Header
from soscope.binfmt.elf.sections import Section, Sections, Stretches
from soscope.binfmt.isa import part
from soscope.errors import FormatError
from soscope.model.filemap import IPLT, PLT, PLT_GOT, Stub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

# The input and the results of every decoder of stubs.


class Code(NamedTuple):
    """A block of code at link-time address `vaddr`.

    `section` is the name of its section, None if the file has no section headers. Then the code
    may be anything, and a decoder must apply stricter rules.
    """

    vaddr: int
    data: bytes
    section: str | None


class FoundStub(NamedTuple):
    """A stub: `slot` is the vaddr of the word it jumps through, `kind` is from model/filemap.py.

    The finder decides whether the word is a slot.
    """

    vaddr: int
    size: int
    slot: int
    kind: str


class Decoder(NamedTuple):
    """The functions that find the stubs of one machine.

    `find` yields the stubs in a block of code. `places` are prefixes of the sections that hold
    only stubs; it is empty if the linker puts stubs among the functions. `in_place` yields slots
    that are stubs at the same time. `missing` returns why a file's stubs cannot be decoded, "" if
    they can.
    """

    find: Callable[[Code, SlotTable], Iterable[FoundStub]]
    places: tuple[str, ...]
    in_place: Callable[[SlotTable], Iterable[FoundStub]] | None = None
    missing: Callable[[Header], str] | None = None


class SlotTable:
    """The slots of an image, in the form that decoders need.

    `slots` maps the vaddr of each slot to whether an IRELATIVE relocation fills it. `calls` are
    the slots of DT_JMPREL in order. `bases` are the possible base addresses of
    position-independent code, the likeliest first: DT_PLTGOT, .got.plt, .got. `base` is the right
    one, once a decoder has determined it. `notes` belongs to the decoder, which stores results
    about the whole file there. `partial` gets reasons why something could not be decoded.
    """

    __slots__ = ("_called", "base", "bases", "calls", "image", "notes", "partial", "slots")

    def __init__(
        self,
        image: ElfReader,
        slots: Mapping[int, bool],
        calls: Sequence[int],
        bases: Sequence[int] = (),
    ) -> None:
        self.image = image
        self.slots = slots
        self.calls = calls
        self.bases = bases
        self.base: int | None = None
        self._called: frozenset[int] | None = None
        self.notes: dict[str, Any] = {}
        self.partial: list[str] = []

    def kind(self, code: Code, slot: int) -> str:
        """Return the kind of a stub, for linkers that write only one form.

        If the section's name is not known, the kind depends on whether the slot is one of
        `calls`.
        """
        if self.slots.get(slot):
            return IPLT
        if code.section is not None:
            return PLT_GOT if code.section.startswith(".plt.got") else PLT
        if self._called is None:
            self._called = frozenset(self.calls)
        return PLT if slot in self._called else PLT_GOT

    def read(self, vaddr: int, size: int) -> bytes:
        """Return the bytes at a link-time address, none if the file has none."""
        try:
            return self.image.source.read(self.image.locate(vaddr), size)
        except FormatError:
            return b""

    def word(self, vaddr: int) -> int | None:
        """Return the address-sized number at `vaddr`, None if the file has none."""
        word = self.image.encoding.word
        data = self.read(vaddr, word.size)
        return int(word.unpack(data)[0]) if len(data) == word.size else None

    def tag(self, tag: int) -> int | None:
        """Return the value of a dynamic tag."""
        return self.image.dynamic.get(tag)

    def say(self, reason: str) -> None:
        """Add a reason to `partial`, unless it is there already."""
        if reason not in self.partial:
            self.partial.append(reason)

    @property
    def flags(self) -> int:
        """The e_flags of the image, 0 without an ELF header."""
        return self.image.header.flags if self.image.header else 0

    @property
    def got(self) -> int:
        """The value of DT_PLTGOT, 0 if there is none."""
        return self.tag(c.DT_PLTGOT) or 0


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


# The record for an instruction that calls or jumps through a slot, on any machine.


class Through(NamedTuple):
    """One instruction at `vaddr`, and the slot that it goes through; both are link-time addresses.

    `register` is the register into which the slot was loaded, -1 if the instruction reads the
    slot itself or is the start of a stub.
    """

    vaddr: int
    slot: int
    is_call: bool
    register: int = -1


# Instructions of four bytes, in either byte order, and the branches of PowerPC.

_BRANCH = re.compile(rb"[\x48-\x4b]")  # the opcode of b and bl, in the first byte


def big_endian(data: bytes, order: str) -> bytes:
    """Return code with each instruction in big-endian order, without bytes left over."""
    if order == ">":
        return data
    from array import array  # it loads collections.abc; only these byte orders need it

    words = array("I", data[: len(data) & ~3])
    words.byteswap()
    return words.tobytes()


def numbers(data: bytes) -> array[int]:
    """Return `data` as big-endian numbers of four bytes each."""
    from array import array

    words = array("I", data[: len(data) & ~3])
    if sys.byteorder == "little":
        words.byteswap()
    return words


def signed(data: bytes) -> int:
    """Return big-endian bytes as a signed number."""
    return int.from_bytes(data, "big", signed=True)


def branches(vaddr: int, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (address, target) of every b and bl of PowerPC; `data` is big-endian."""
    words = numbers(data)
    for match in _BRANCH.finditer(data[: len(data) & ~3 : 4]):
        index = match.start()
        word = words[index]
        if not word & 2:
            distance = word & 0x03FF_FFFC
            if distance & 0x0200_0000:
                distance -= 0x0400_0000
            place = vaddr + 4 * index
            yield place, place + distance
