# SPDX-License-Identifier: Apache-2.0
"""Functions with the name of a declared function, but defined by another library.

The agent decides slot by slot which of the two a call reaches. This finds functions that may be
another library's, so that debug information is read for them.
"""

from __future__ import annotations

import os

from soscope.errors import FormatError
from soscope.prototypes.compiled import TREATMENT_FAMILIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.elf.image import ElfImage
    from soscope.binfmt.elf.symbols.array import ElfSymbol
    from soscope.prototypes import Prototypes


class ForeignFunctions:
    """Finds such functions in the images of a program, given as (path, image)."""

    def __init__(self, prototypes: Prototypes, images: list[tuple[str, ElfImage]]) -> None:
        self._prototypes = prototypes
        self._paths = images
        self._named: list[tuple[ElfImage, str]] = []
        self._known: dict[str, bool] = {}

    def _images(self) -> list[tuple[ElfImage, str]]:
        """Return the images with their names, made at the first use."""
        if not self._named:
            self._named = [
                (image, image.soname or os.path.basename(path)) for path, image in self._paths
            ]
        return self._named

    def may_be(self, symbol: ElfSymbol) -> bool:
        """Return whether the function that an image calls by a symbol may be another library's."""
        version = symbol.version
        if version and any(self._prototypes.is_of(each, version) for each in TREATMENT_FAMILIES):
            return False
        return self.is_defined(symbol.name)

    def is_defined(self, name: str) -> bool:
        """Return whether an image outside of the name's family defines such a function."""
        if name not in self._known:
            family = self._prototypes.family(name)
            self._known[name] = bool(family) and any(
                not self._prototypes.is_of(family, called) and _has(image, name)
                for image, called in self._images()
            )
        return self._known[name]

    def is_other(self, image: ElfImage, name: str) -> bool:
        """Return whether this image is outside of the name's family and defines such a function."""
        family = self._prototypes.family(name)
        called = next(called for each, called in self._images() if each is image)
        return bool(family) and not self._prototypes.is_of(family, called) and _has(image, name)


def _has(image: ElfImage, name: str) -> bool:
    try:
        return image.symbols.lookup(name) is not None
    except FormatError:
        return False
