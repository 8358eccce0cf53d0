# SPDX-License-Identifier: Apache-2.0
"""The input and the results of every decoder of stubs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.header import Header
from soscope.binfmt.elf.reader import ElfReader
from soscope.errors import FormatError
from soscope.model.filemap import IPLT, PLT, PLT_GOT


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
