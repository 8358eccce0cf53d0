# SPDX-License-Identifier: Apache-2.0
"""What every decoder of stubs is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.header import Header
from soscope.binfmt.elf.reader import ElfReader
from soscope.errors import FormatError
from soscope.model.filemap import IPLT, PLT, PLT_GOT


class Code(NamedTuple):
    """A stretch of code at link-time address `vaddr`.

    `section` is its section's name, None where the file has none: then it may be anything,
    and a decoder has to be stricter.
    """

    vaddr: int
    data: bytes
    section: str | None


class FoundStub(NamedTuple):
    """A stub: `slot` is the vaddr that it leads through, `kind` a word of model/filemap.py.

    Whether `slot` is one is for the finder to say.
    """

    vaddr: int
    size: int
    slot: int
    kind: str


class Decoder(NamedTuple):
    """What finds the stubs of one machine.

    `find` gives those in a stretch of code, pure bytes in. `places` are how the names of the
    sections begin that hold nothing but stubs; empty where the linker puts them among the
    functions. `in_place` gives slots that are stubs; `missing` says why a file's stubs cannot
    be told all the same, "" where they can.
    """

    find: Callable[[Code, SlotTable], Iterable[FoundStub]]
    places: tuple[str, ...]
    in_place: Callable[[SlotTable], Iterable[FoundStub]] | None = None
    missing: Callable[[Header], str] | None = None


class SlotTable:
    """The slots of an image, as decoders ask for them.

    `slots` has the vaddr of each slot, with True for those that an IRELATIVE fills; `calls` are
    those of DT_JMPREL in its order. `bases` are the addresses that position-independent code
    may count from, the likeliest first: DT_PLTGOT, .got.plt, .got; `base` is the right one, once
    a decoder has made sure of it. `notes` is a decoder's own, too: what it has found out of the
    whole file; `partial` gets a reason for what it cannot tell.
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
        """Return the kind of a stub where the linkers make but one form of it.

        Without a section's name, by whether the slot is one of `calls`.
        """
        if self.slots.get(slot):
            return IPLT
        if code.section is not None:
            return PLT_GOT if code.section.startswith(".plt.got") else PLT
        if self._called is None:
            self._called = frozenset(self.calls)
        return PLT if slot in self._called else PLT_GOT

    def read(self, vaddr: int, size: int) -> bytes:
        """Return the bytes at a link-time address, none where the file has none."""
        try:
            return self.image.source.read(self.image.locate(vaddr), size)
        except FormatError:
            return b""

    def word(self, vaddr: int) -> int | None:
        """Return the address-sized number at `vaddr`, None where the file has none."""
        word = self.image.encoding.word
        data = self.read(vaddr, word.size)
        return int(word.unpack(data)[0]) if len(data) == word.size else None

    def tag(self, tag: int) -> int | None:
        """Return the value of a dynamic tag."""
        return self.image.dynamic.get(tag)

    def say(self, reason: str) -> None:
        """Have a reason in `partial`, once."""
        if reason not in self.partial:
            self.partial.append(reason)

    @property
    def flags(self) -> int:
        """Return e_flags."""
        return self.image.header.flags if self.image.header else 0

    @property
    def got(self) -> int:
        """Return DT_PLTGOT, 0 where there is none."""
        return self.tag(c.DT_PLTGOT) or 0
