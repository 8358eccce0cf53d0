# SPDX-License-Identifier: Apache-2.0
"""What a loader's own file says of the folders that it was built to look in.

glibc keeps them in one string, `system_dirs` of elf/dl-load.c: paths that begin and end with a
slash, each with its NUL. Distributions differ here as in nothing else.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from soscope.linker.openfile import read_regular

_MAX = 1 << 24
_MAX_FOLDERS = 16


class Built(NamedTuple):
    """How a glibc loader was built: its default folders, $LIB, and its version.

    `folders` and `lib` are empty where the file does not say so; `version` is that of loaders
    before 2.33, (2, 0), where it names none.
    """

    folders: list[str]
    lib: str
    version: tuple[int, int]


def read(path: str) -> Built | None:
    """Return what the file of a glibc loader says, None where it cannot be read.

    Raises OSError where too many files are open.
    """
    data = read_regular(path, _MAX)
    return None if data is None else parse(data)


def parse(data: bytes) -> Built:
    """Return what `read` returns, from the bytes of a loader."""
    folders = _system_folders(data)
    return Built(folders, _lib(data, folders[0]) if folders else "", _version(data))


def _version(data: bytes) -> tuple[int, int]:
    """Return the version in "… release version 2.36.", which dl-usage.c prints."""
    mark = b" release version "
    at = data.find(mark)
    words = data[at + len(mark) : at + len(mark) + 8].split(b".") if at >= 0 else []
    if len(words) < 2 or not words[0].isdigit() or not words[1][:2].isdigit():
        return 2, 0
    return int(words[0]), int(words[1][:2])


def _system_folders(data: bytes) -> list[str]:
    end = 0
    while (at := data.find(b"/lib", end)) >= 0:
        folders, end = _run(data, data.rfind(b"\0", 0, at) + 1)
        if not folders:  # a number may lie right before it
            folders, end = _run(data, at)
        if folders:
            return folders
        end = max(end, at + 1)
    return []


def _run(data: bytes, start: int) -> tuple[list[str], int]:
    """Return the strings from `start` on that are folders, and where the first other one is."""
    folders: list[str] = []
    at = start
    while len(folders) < _MAX_FOLDERS:
        end = data.find(b"\0", at, at + 4096)
        text = data[at:end] if end > at else b""
        is_folder = text[:1] == b"/" == text[-1:] and len(text) > 1
        if not is_folder or not all(33 <= byte < 127 for byte in text):
            break
        folders.append(os.fsdecode(text.rstrip(b"/")))
        at = end + 1
    return folders, at


def _lib(data: bytes, folder: str) -> str:
    """Return $LIB: Debian's has two parts, that of others is the last one of the folder."""
    whole = folder.strip("/")
    if b"\0" + os.fsencode(whole) + b"\0" in data:
        return whole
    return os.path.basename(folder)
