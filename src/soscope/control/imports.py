# SPDX-License-Identifier: Apache-2.0
"""Look up what images import: the candidates for a name that matched nothing."""

from __future__ import annotations

import os
from _collections_abc import Iterable

from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError


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


def which_trace(paths: Iterable[str]) -> list[str]:
    """Return those of the programs at `paths` that import ptrace(2), in order."""
    return [path for path in sorted(paths) if "ptrace" in imported_functions([path])]
