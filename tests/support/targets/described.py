# SPDX-License-Identifier: Apache-2.0
"""The types of a built library's functions, by its DWARF."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soscope.binfmt.elf.image import ElfImage
from soscope.live.names.dwarfnames import DwarfNames
from soscope.live.names.staticnames import ImageNames
from soscope.model.call import Signature
from tests.support.files.elffiles import build_id


@contextmanager
def described(path: Path) -> Iterator[Described]:
    """Open a library until the end of the block."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield Described(ElfImage.from_descriptor(descriptor, str(path)), path)
    finally:
        os.close(descriptor)


class Described:
    """The functions of one library."""

    def __init__(self, image: ElfImage, path: Path) -> None:
        self.image = image
        self.names = ImageNames(image, build_id=build_id(path), path=str(path), roots=[""])
        self.dwarf = DwarfNames(self.names, has_types=True)

    def __getitem__(self, name: str) -> Signature:
        found = self.found(name)
        assert found is not None, (name, self.names.notes)
        return found

    def found(self, name: str) -> Signature | None:
        symbol = self.image.symbol(name)
        assert symbol is not None, name
        return self.dwarf.signature(symbol.value, name, 20.0)
