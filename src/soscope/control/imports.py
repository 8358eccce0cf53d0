# SPDX-License-Identifier: Apache-2.0
"""Look up what images import: the candidates for a name that matched nothing."""

from __future__ import annotations

import os
from _collections_abc import Iterable

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.elf.symbols.array import static_table
from soscope.errors import FormatError

_FUNCTIONS = (c.STT_FUNC, c.STT_GNU_IFUNC)


def imported_functions(paths: Iterable[str]) -> set[str]:
    """Return the names of all function symbols that the files at `paths` import.

    Files that cannot be read, and images without a file, add nothing.
    """
    names: set[str] = set()
    for path in dict.fromkeys(paths):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # it imports nothing that we could hook
        try:
            image = ElfImage.from_descriptor(descriptor, path)
            names.update(symbol.name for symbol in image.undefined_functions())
        except (FormatError, OSError):
            pass  # not one whose imports can be said: it gives no names
        finally:
            os.close(descriptor)
    return names


def which_define(name: str, paths: Iterable[str]) -> list[str]:
    """Return those of the files at `paths` that have a function of this name, in order.

    It may be one that no other image can call: their own symbol table has it, too.
    """
    having = []
    for path in dict.fromkeys(paths):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            image = ElfImage.from_descriptor(descriptor, path)
            symbols = [image.symbols.lookup(name)]
            symbols += static_table(image.source, Sections.read(image), image.encoding).find(name)
            if any(each is not None and each.type in _FUNCTIONS for each in symbols):
                having.append(path)
        except (FormatError, OSError):
            pass  # not one whose functions can be said
        finally:
            os.close(descriptor)
    return having


def which_trace(paths: Iterable[str]) -> list[str]:
    """Return those of the programs at `paths` that import ptrace(2), in order."""
    return [path for path in sorted(paths) if "ptrace" in imported_functions([path])]
