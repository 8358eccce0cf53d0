# SPDX-License-Identifier: Apache-2.0
"""Calls of functions inside an image: breakpoints at their entry points, for all callers."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.symbols.array import SymbolArray
from soscope.binfmt.elf.symbols.table import dynamic_table
from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.remote.watch import Armed
from soscope.entry.breakpoint import Points
from soscope.entry.remote.convention import Convention
from soscope.live.names.staticnames import ImageNames


class EntryPoint(Armed):
    """One function. Its `slot` has the address of its first instruction, not of a GOT word."""

    __slots__ = ()

    runs_on = True


class EntryPoints:
    """The functions of one program that match `words`, each SYMBOL or SYMBOL@IMAGE, with globs."""

    __slots__ = ("_at", "_convention", "_main", "_points", "_unmatched", "_words")

    def __init__(self, words: list[str], convention: Convention, points: Points) -> None:
        self._words = [(w, *w.partition("@")[::2]) for w in dict.fromkeys(words)]
        self._unmatched = dict.fromkeys(words)
        self._convention = convention
        self._points = points
        self._at: dict[int, EntryPoint] = {}
        self._main = "the program"

    def functions(self, image: ForeignImage) -> Iterator[CalledSlot]:
        """Yield the requested functions of an image, each address once. Raises FormatError.

        If an image has no .symtab, functions that only its debug file has are searched, too.
        """
        if image.is_main:
            self._main = image.name
        names = [(w, name) for w, name, of in self._words if fnmatchcase(image.name, of or "*")]
        if not names:
            return
        seen = set(self._at)
        names_of = ImageNames(image.elf, build_id=image.elf.build_id, path=image.path, roots=[""])
        for table in (dynamic_table(image.elf), *(part for _, part in names_of.parts())):
            for symbol, addr in self._named(table, names, image):
                if addr not in seen:
                    seen.add(addr)
                    yield CalledSlot(addr, symbol, "", relocation=0, is_call=True)

    def _named(
        self, table: SymbolArray, names: list[tuple[str, str]], image: ForeignImage
    ) -> Iterator[tuple[str, int]]:
        for row in table.rows():
            start, info, other, section, value, _ = row
            if info & 15 != c.STT_FUNC or section == c.SHN_UNDEF or not value:
                continue
            symbol = table.text(start).partition("@")[0]
            matching = [word for word, name in names if fnmatchcase(symbol, name)]
            for word in matching:
                self._unmatched.pop(word, None)
            if matching:
                yield symbol, self._entry(image, value + image.linked.load_bias, other)

    def _entry(self, image: ForeignImage, addr: int, other: int) -> int:
        """Return the address that all calls of a function run through, from inside and outside."""
        convention = self._convention
        if convention.descriptor:
            return image.code_of(addr)
        if convention.state is not None:
            return addr & ~1
        return addr + image.behind_entry(other) if convention.local_entries else addr

    def watch(self, slot: CalledSlot, image: ForeignImage, call: object, number: int) -> None:
        """Put a breakpoint at the first instruction of a function."""
        armed = self._at[slot.addr] = EntryPoint(slot, image, call)
        armed.number = number
        self._points.want(slot.addr)

    def forked(self, points: Points) -> EntryPoints:
        """Return a copy for a forked process, with its breakpoints.

        Both processes share the list of words that have matched nothing.
        """
        copied = EntryPoints([], self._convention, points)
        copied._words = self._words
        copied._at = dict(self._at)
        copied.go_on_from(self)
        return copied

    def go_on_from(self, before: EntryPoints) -> None:
        """Share with `before` the list of words that have matched nothing."""
        self._main = before._main
        self._unmatched = before._unmatched

    def remarks(self) -> list[str]:
        """Return which words have matched no function."""
        said = []
        for word in self._unmatched:
            name, _, of = word.partition("@")
            where = of or f"{self._main} or its libraries"
            said.append(f"-x {word}: symbol '{name}' not found in {where}")
        return said

    def at_point(self, pc: int) -> EntryPoint | None:
        """Return the function that a thread at `pc` is about to enter, or None."""
        return self._at.get(pc)

    def forget(self, image: ForeignImage) -> None:
        """Drop the functions of an image that was unloaded."""
        for addr, armed in list(self._at.items()):
            if armed.image is image:
                del self._at[addr]
                self._points.leave(addr)
