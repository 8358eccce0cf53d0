# SPDX-License-Identifier: Apache-2.0
"""Look up the functions that images import, to suggest names when a name matches none."""

from __future__ import annotations

import os

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf import slots
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.symboltable import static_table
from soscope.binfmt.source import open_regular
from soscope.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    _T = TypeVar("_T")

_FUNCTIONS = (c.STT_FUNC, c.STT_GNU_IFUNC)
_PURE = frozenset(("__cxa_pure_virtual", "__cxa_deleted_virtual"))
_PERSONALITIES = ("personality", "personality_v0")


def imported_functions(paths: Iterable[str]) -> set[str]:
    """Return the names of all function symbols that the files at `paths` import.

    Files that cannot be read, and images without a file, add no names.
    """
    names: set[str] = set()
    for path in dict.fromkeys(paths):
        names.update(_asked(path, _imported, ()))
    return names


def which_define(name: str, paths: Iterable[str]) -> list[str]:
    """Return the files of `paths` that define a function of this name, in order.

    The function may be a local one, which other images cannot call: `.symtab` is searched, too.
    """

    def has_it(image: ElfImage) -> bool:
        symbols = [image.symbols.lookup(name)]
        symbols += static_table(image.source, Sections.read(image), image.encoding).find(name)
        return any(each is not None and each.type in _FUNCTIONS for each in symbols)

    return [path for path in dict.fromkeys(paths) if _asked(path, has_it, False)]


def _imported(image: ElfImage) -> Iterable[str]:
    return [symbol.name for symbol in image.undefined_functions()]


def pointed_functions(path: str) -> list[str]:
    """Return the functions that a file imports, and whose addresses the loader puts into its data.

    A call through such a pointer (a table of functions) goes through no slot. Functions
    that only run-time libraries call are left out: functions of C++ that find a handler, or
    stand for a virtual function without a body.
    """
    return _asked(path, _pointed, [])


def _pointed(image: ElfImage) -> list[str]:
    arch = image.header.arch if image.header else None
    if arch is None or not arch.relocations.word or arch.has_split_info:
        return []
    word, coding = arch.relocations.word, image.encoding
    shift, mask = (32, 0xFFFF_FFFF) if coding.bits == 64 else (8, 0xFF)
    indices: set[int] = set()
    for table in slots.tables(image):
        layout = coding.rela if table[2] else coding.rel
        rows = layout.iter_unpack(slots.entries(image, table, (word,))[0])
        indices.update(row[1] >> shift for row in rows if row[1] & mask == word)
    if not indices:
        return []
    return [
        symbol.name
        for symbol in image.undefined_functions()
        if symbol.index in indices
        and symbol.name not in _PURE
        and not symbol.name.endswith(_PERSONALITIES)
    ]


def _asked(path: str, ask: Callable[[ElfImage], _T], nothing: _T) -> _T:
    """Return the result of `ask` for the file at a path, or `nothing` if it cannot be read.

    The paths come from the target's own records, so one may lead to a FIFO. Only regular files
    are opened.
    """
    descriptor = open_regular(path)
    if descriptor is None:
        return nothing
    try:
        return ask(ElfImage.from_descriptor(descriptor, path))
    except (FormatError, OSError):
        return nothing
    finally:
        os.close(descriptor)


def which_trace(paths: Iterable[str]) -> list[str]:
    """Return the programs of `paths` that import ptrace(2), in sorted order."""
    return [path for path in sorted(paths) if "ptrace" in imported_functions([path])]
