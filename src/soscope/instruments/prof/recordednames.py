# SPDX-License-Identifier: Apache-2.0
"""Names of the functions of the images of a recording. Each file is read once."""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.symbols.lookup import Name
from soscope.errors import SoscopeError
from soscope.instruments.prof.model import ProfFunction
from soscope.instruments.prof.naming import ImageFunctions
from soscope.model.image import TracedImage

_MANGLED = "_Z"


class RecordedNames:
    """The functions of all images that are asked for. `with_lines` as in `ImageFunctions`."""

    def __init__(self, *, with_lines: bool = False) -> None:
        self._with_lines = with_lines
        self._files: dict[tuple[str, bytes, str], ImageFunctions] = {}

    def of(self, image: TracedImage) -> ImageFunctions:
        """Return the functions of an image."""
        key = image.path, image.identity, image.label
        known = self._files.get(key)
        if known is None:
            known = ImageFunctions(
                image.path, image.identity, image=image.label, with_lines=self._with_lines
            )
            self._files[key] = known
        return known

    def named(self, image: TracedImage | None, symbol: str, version: str) -> ProfFunction:
        """Return the function that an image exports as `symbol`, which is also its name here.

        `version` is the version of the symbol, "" if it has none.

        The address is not known if a resolver chooses it (STT_GNU_IFUNC), or if the image's file
        has no such symbol.
        """
        if image is None:
            return ProfFunction("", symbol)
        functions = self.of(image)
        addr = 0 if functions.elf is None else _addr_of(functions, symbol, version)
        if not addr:
            return ProfFunction(image.label, symbol, path=image.path)
        at = functions.at(addr)
        if symbol.startswith(_MANGLED) or at.symbol == symbol:
            return at  # by the name that users know
        return ProfFunction(image.label, symbol, at.addr, at.size, image.path, at.file, at.line)

    def method(self, image: TracedImage, name: str, addr: int) -> ProfFunction:
        """Return the function at run-time address `addr`, with the name that Python code uses."""
        at = self.of(image).at(addr - image.load_bias)
        return ProfFunction(image.label, name, at.addr, at.size, image.path, at.file, at.line)

    @property
    def notes(self) -> list[str]:
        """Return what could not be read, and why, except for images without a file (the vDSO)."""
        return [
            note
            for functions in self._files.values()
            if functions.path.startswith("/")
            for note in functions.notes
        ]


def _addr_of(functions: ImageFunctions, symbol: str, version: str) -> int:
    """Return the link-time address of an exported function, 0 if it is not known."""
    assert functions.elf is not None
    try:
        entry = functions.elf.symbols.find(Name(os.fsencode(symbol)), version or None)
    except (SoscopeError, OSError):
        return 0  # the symbols are damaged, but the name is known all the same
    if entry is None or entry.type == c.STT_GNU_IFUNC:
        return 0
    return entry.value
