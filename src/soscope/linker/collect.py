# SPDX-License-Identifier: Apache-2.0
"""The images among files and folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from soscope.errors import FormatError

# What images begin with: ELF, Mach-O thin (both sizes, both byte orders), fat, archives of them.
_MAGICS = (
    b"\x7fELF",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"\xca\xfe\xba\xbf",
)


def files_below(paths: Iterable[str]) -> Iterator[str]:
    """Give the files that are named, and those in folders that begin as an image does.

    Folders are walked in order of names; links in them are not followed, so that no file
    comes twice.
    """
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                file = os.path.join(folder, name)
                if _begins_as_image(file):
                    yield file


def _begins_as_image(path: str) -> bool:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.read(descriptor, 4) in _MAGICS
    except OSError:
        return False
    finally:
        os.close(descriptor)


def reason(error: Exception, path: str) -> str:
    """Return what is wrong with a file, in one line that names it."""
    if isinstance(error, FormatError):
        return str(error)
    if isinstance(error, OSError):
        return f"{path}: {(error.strerror or str(error)).lower()}"
    return f"{path}: {error}"
