# SPDX-License-Identifier: Apache-2.0
"""Find out which allocator a process uses: the one whose `malloc` its images call."""

from __future__ import annotations

import os

from soscope.binfmt.elf.symbols.lookup import Name
from soscope.binfmt.elf.symbols.table import CALL
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.images.images import Images
    from soscope.live.images.loadedimage import LoadedImage

GLIBC, MUSL = "glibc", "musl"
# functions that only this allocator has; the first two may have a prefix
_MARKS = {
    "jemalloc": (b"mallctlnametomib", b"je_mallctlnametomib", b"mallctl"),
    "tcmalloc": (b"tc_malloc", b"MallocExtension_Internal_GetNumericProperty"),
    "mimalloc": (b"mi_malloc", b"mi_version"),
}


class Allocator:
    """An allocator: `name` is None if it is unknown; `image` defines its malloc."""

    __slots__ = ("image", "name")

    def __init__(self, name: str | None, image: LoadedImage | None) -> None:
        self.name = name
        self.image = image


def find_allocator(images: Images) -> Allocator:
    """Return the allocator that calls of malloc reach."""
    for image in [images.main] if images.is_static else images.scope():
        if images.is_static or has_symbol(image, b"malloc"):
            for name, marks in _MARKS.items():
                if any(has_symbol(image, mark) for mark in marks):
                    return Allocator(name, image)
            return Allocator(_libc(image), image)
    return Allocator(None, None)


def glibc_images(images: Images) -> list[LoadedImage]:
    """Return the images that may contain glibc's malloc, one for each namespace."""
    if images.is_static:
        return [images.main]
    return [image for image in images.linked if _is_glibc(image)]


def _libc(image: LoadedImage) -> str | None:
    if _is_glibc(image):
        return GLIBC
    names = image.name, os.path.basename(image.path), image.soname
    if any(name.startswith(("ld-musl", "libc.musl")) for name in names):
        return MUSL
    return None


def _is_glibc(image: LoadedImage) -> bool:
    return not image.is_vdso and image.soname == "libc.so.6"


def has_symbol(image: LoadedImage, name: bytes) -> bool:
    """Return whether an image defines a symbol; a program's own stub does not count."""
    if image.is_vdso:
        return False
    try:
        return image.symbols.find(Name(name), use=CALL) is not None
    except FormatError:
        return False  # damaged tables: not an allocator
