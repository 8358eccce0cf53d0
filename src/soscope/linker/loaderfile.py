# SPDX-License-Identifier: Apache-2.0
"""The folders that a loader was built to search, from the loader's own file.

glibc keeps them in one string, `system_dirs` of elf/dl-load.c: paths that begin and end with a
slash, each with its NUL. They differ a lot between distributions.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from soscope.linker.openfile import read_regular

_MAX = 1 << 24
_MAX_FOLDERS = 16


class Built(NamedTuple):
    """How a glibc loader was built: its default folders, $LIB, and its version.

    `folders` and `lib` are empty if the file does not contain them. If it contains no version,
    `version` is (2, 0), which stands for loaders before 2.33.
    """

    folders: list[str]
    lib: str
    version: tuple[int, int]


def read(path: str) -> Built | None:
    """Return the data in the file of a glibc loader, None if it cannot be read.

    Raises OSError if too many files are open.
    """
    data = read_regular(path, _MAX)
    return None if data is None else parse(data)


def parse(data: bytes) -> Built:
    """Return the same as `read`, from the bytes of a loader."""
    folders = _system_folders(data)
    return Built(folders, _lib(data, folders[0]) if folders else "", _version(data))


def _version(data: bytes) -> tuple[int, int]:
    """Return the version in the text "… release version 2.36." of dl-usage.c."""
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
        if not folders:  # a number may lie directly before it
            folders, end = _run(data, at)
        if folders:
            return folders
        end = max(end, at + 1)
    return []


def _run(data: bytes, start: int) -> tuple[list[str], int]:
    """Return the folders from `start` on, and the position of the first string that is none."""
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
    """Return $LIB: on Debian it has two parts, elsewhere it is the last part of the folder."""
    whole = folder.strip("/")
    if b"\0" + os.fsencode(whole) + b"\0" in data:
        return whole
    return os.path.basename(folder)
