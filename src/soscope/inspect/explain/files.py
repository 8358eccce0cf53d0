# SPDX-License-Identifier: Apache-2.0
"""Follow one call in one or two files: the choice of images and slots."""

from __future__ import annotations

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.macho import image as c
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.macho.image import MachoSection
from soscope.binfmt.macho.symbols import Nlist
from soscope.binfmt.search import Spans
from soscope.errors import SoscopeError
from soscope.inspect.explain.callway import Explanation, Follower, Importer
from soscope.inspect.explain.filecode import ElfCode, FileCode, FileFunction
from soscope.inspect.explain.resolvers import DYLD
from soscope.linker.image import Image, Slot
from soscope.model import filemap
from soscope.model.arch import arch_named
from soscope.model.filemap import MACHO

_NOT_SEARCHED = "the code was not searched to its end: there is more of it than the file has bytes"
_MOST_WAYS = 32  # slots of one symbol
_MOST_NEAR = 5
_MOST_NAMES = 100_000  # names that are searched for similar ones


def explain_files(paths: list[str], symbol: str, arch: str | None = None) -> Explanation:
    """Explain calls of `symbol` (NAME or NAME@VERSION) in one file or in two.

    For one fat file, up to two slices are explained; for two files, the slices with the same
    processor. `arch` chooses a slice. A C function's name may have Mach-O's underscore or not.
    Raises OSError, FormatError, SoscopeError (slug no-such-arch).
    """
    files = [Image.open(path) for path in paths]
    slices = [list(file.slices) for file in files]
    if arch is not None:
        slices = _of_arch(paths, slices, arch)
    if len(slices) == 1:
        importers = [_explain(image, symbol, is_alone=True) for image in slices[0]]
        first, *others = [image for image in importers if image.ways][:2] or importers[:1]
        return Explanation(symbol, (_with_damage(first, files[0]), *others))
    importers = [
        _with_damage(_explain(image, symbol, is_alone=False), file)
        for image, file in zip(_pair(*slices), files, strict=True)
    ]
    return Explanation(symbol, tuple(importers))


def _of_arch(paths: list[str], slices: list[list[Image]], arch: str) -> list[list[Image]]:
    """Return the slices for `arch`; all slices of a file without one. Raises SoscopeError."""
    chosen = [[image for image in images if image.arch == arch] for images in slices]
    if any(chosen):
        return [some or images for some, images in zip(chosen, slices, strict=True)]
    listed = [", ".join(image.arch for image in images) for images in slices]
    hint = f"there is {listed[0]}"
    if len(paths) > 1:
        parts = zip(paths, listed, strict=True)
        hint = "; ".join(f"in {path} there is {archs}" for path, archs in parts)
    raise SoscopeError(
        f"{' and '.join(paths)}: no image for {arch}", slug="no-such-arch", hint=hint
    )


def _with_damage(importer: Importer, file: Image) -> Importer:
    """Return the results for one image, with messages about damaged images of its file."""
    damaged = [why.removeprefix(f"{file.path}: ") for why in file.damaged]
    return importer._replace(partial=(*damaged, *importer.partial))


def _pair(first: list[Image], second: list[Image]) -> tuple[Image, Image]:
    """Return the first two images for the same processor, else the first image of each file."""
    for image in first:
        for other in second:
            if _processor(image.arch) == _processor(other.arch):
                return image, other
    return first[0], second[0]


def _processor(name: str) -> str:
    arch = arch_named(name)
    return name if arch is None else arch.name


def _explain(image: Image, symbol: str, *, is_alone: bool) -> Importer:
    name, slots = _slots(image, symbol, is_alone=is_alone)
    code = code_of(image)
    follower = Follower(code, format=image.format, arch=image.arch)
    selector = name.partition("$")[2]
    ways = follower.ways(
        [
            (_chosen(slot, selector), slot.provider, slot.provider_reason)
            for slot in slots[:_MOST_WAYS]
        ]
    )
    partial = list(image.partial)
    if not code.is_searched:
        partial.append(_NOT_SEARCHED)
    if len(slots) > _MOST_WAYS:
        partial.append(f"{len(slots) - _MOST_WAYS:,} more slots of {name} are left out")
    return Importer(
        name=image.name,
        path=image.path,
        format=image.format,
        arch=image.arch,
        kind=image.kind,
        loader=code.loader,
        symbol=name,
        ways=tuple(ways),
        near=() if ways else _near(image, symbol),
        partial=tuple(partial),
    )


def _slots(image: Image, symbol: str, *, is_alone: bool) -> tuple[str, tuple[Slot, ...]]:
    names = [symbol]
    if image.format == MACHO:
        names.append(f"_{symbol.partition('@')[0]}")
    elif not is_alone and symbol.startswith("_"):
        names.append(symbol[1:])
    for name in names:
        slots = image.slots.named(name)
        if slots:
            return name, slots
    for name in names:  # names of Objective-C stubs: _objc_msgSend$SELECTOR
        function, _, selector = name.partition("$")
        slots = image.slots.named(function) if selector else ()
        if any(stub.selector == selector for slot in slots for stub in slot.stubs):
            return name, slots
    return symbol, ()


def _chosen(slot: filemap.FileSlot, selector: str) -> filemap.FileSlot:
    """Return a slot with only the stubs for a selector, or unchanged if no stub is for it."""
    stubs = tuple(stub for stub in slot.stubs if selector and stub.selector == selector)
    return filemap.FileSlot._make(slot)._replace(stubs=stubs) if stubs else slot


def _near(image: Image, symbol: str) -> tuple[str, ...]:
    from difflib import get_close_matches

    wanted = symbol.partition("@")[0].lstrip("_")
    symbols: dict[str, str] = {}
    for slot in image.slots[:_MOST_NAMES]:
        name = slot.symbol.lstrip("_")
        if abs(len(name) - len(wanted)) <= 3 or (len(wanted) > 2 and wanted in name):
            symbols.setdefault(name, slot.symbol)
    inside = [name for name in symbols if len(wanted) > 2 and wanted in name]
    close = get_close_matches(wanted, list(symbols), n=_MOST_NEAR, cutoff=0.6)
    return tuple(symbols[name] for name in dict.fromkeys([*close, *sorted(inside)]))[:_MOST_NEAR]


def code_of(image: Image) -> FileCode:
    """Return the code of an image."""
    reader = image.map
    if isinstance(reader, ElfMap):
        return ElfCode(reader)

    assert isinstance(reader, MachoMap)
    return MachoCode(reader)


# The code of one Mach-O image, for following a call through it.

_CODE = c.S_ATTR_PURE_INSTRUCTIONS | c.S_ATTR_SOME_INSTRUCTIONS


class MachoCode(FileCode):
    """The code of a Mach-O image."""

    loader = DYLD

    def __init__(self, macho: MachoMap) -> None:
        self._map = macho
        self.bits = macho.image.encoding.bits
        self.order = macho.image.encoding.order
        self._sections = Spans(
            (section.vaddr, section.vaddr + section.size) for section in macho.image.sections
        )
        self._slots = {slot.vaddr: slot.symbol for slot in macho.slots}

    def read(self, vaddr: int, size: int) -> bytes:
        """Return the bytes at an address."""
        return self._map.image.read(vaddr, size)

    def length(self) -> int:
        """Return the length of the image."""
        return self._map.image.size

    def ranges(self) -> list[tuple[int, int, str]]:
        """Return the sections with code."""
        return [
            (section.vaddr, section.size, section.name)
            for section in self._map.image.sections
            if section.flags & _CODE and section.has_bytes
        ]

    def section(self, vaddr: int) -> str:
        """Return the name of the section at an address."""
        section = self._section(vaddr)
        return "" if section is None else section.name

    def _section(self, vaddr: int) -> MachoSection | None:
        number = self._sections.at(vaddr)
        return None if number is None else self._map.image.sections[number]

    def functions(self) -> list[FileFunction]:
        """Return the symbols in sections with code."""
        table = self._map.table
        sections = self._map.image.sections
        code = {index for index, section in enumerate(sections, 1) if section.flags & _CODE}
        rows: dict[int, Nlist] = {}
        for row in table.rows(0, len(table)):
            if not row.type & c.N_STAB and row.type & c.N_TYPE == c.N_SECT and row.section in code:
                rows.setdefault(row.value, row)
        return [FileFunction(value, 0, table.name(row)) for value, row in sorted(rows.items())]

    def cell(self, vaddr: int) -> str:
        """Return the name of a cell that stub helpers go through, or in which dyld stores data."""
        symbol = self._slots.get(vaddr, "")
        if symbol:
            return symbol
        row = self._map.table.at({vaddr}).get(vaddr)
        return "" if row is None else self._map.table.name(row)
