# SPDX-License-Identifier: Apache-2.0
"""Read everything that one file has, for tests with damaged files; say what is partial."""

from __future__ import annotations

from pathlib import Path

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.slots import relocations
from soscope.binfmt.macho.fat import Slice, embedded, slices
from soscope.binfmt.macho.filemap import MachoMap
from soscope.binfmt.source import ByteSource, FileSource


def elf_image(path: str) -> tuple[str, ...]:
    """Read an image's symbols, their versions, relocations and notes."""
    with Path(path).open("rb") as file:
        image = ElfImage.from_descriptor(file.fileno(), path)
        for symbol in image.symbols:
            image.symbol(symbol.name)
        for _ in relocations(image):
            pass
        assert isinstance(image.needed, list)
        assert isinstance(image.build_id, bytes)
        image.undefined_functions()
    return ()


def elf_map(path: str) -> tuple[str, ...]:
    """Read the static map of an ELF file."""
    with Path(path).open("rb") as file:
        found = ElfMap(ElfImage.from_descriptor(file.fileno(), path))
        facts = (found.arch, found.bits, found.endian, found.kind, found.build_id, found.soname)
        rows = (found.needed, found.slots, found.stubs_without_slot, found.symbols)
        assert len(facts) + len(rows) == 10
    return tuple(found.partial)


def macho_map(path: str) -> tuple[str, ...]:
    """Read the static map of every image in a Mach-O file, its symbols and helpers, too."""
    with Path(path).open("rb") as file:
        source = FileSource(file.fileno(), path)
        hidden = embedded(source)
        return tuple(
            reason for part in [*slices(source), *hidden] for reason in _macho(source, part)
        )


def _macho(source: ByteSource, part: Slice) -> tuple[str, ...]:
    image = MachoMap(source, part)
    assert isinstance(image.symbols, tuple)
    assert isinstance(image.binds(), list)
    for slot in image.slots:
        if slot.helper is not None:
            image.decoded.helper(slot.helper)
        assert isinstance(image.why_no_library(slot), str)
    for stub in image.stubs:
        assert isinstance(image.stub_symbol(stub.vaddr), str)
    assert isinstance(image.stubs_without_slot, tuple)
    return image.partial
