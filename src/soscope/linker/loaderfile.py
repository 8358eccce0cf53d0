# SPDX-License-Identifier: Apache-2.0
"""What a loader's own file says of the folders that it was built to look in.

glibc keeps them in one string, `system_dirs` of elf/dl-load.c: paths that begin and end with a
slash, each with its NUL. Distributions differ here as in nothing else.
"""

from __future__ import annotations

import os

_MAX = 1 << 24
_MAX_FOLDERS = 16


def system_folders(path: str) -> tuple[list[str], str]:
    """Return the default folders and $LIB of the glibc loader at `path`.

    Both are empty where it cannot be read or does not say so.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return [], ""
    try:
        data = os.read(descriptor, _MAX)
    except OSError:
        return [], ""
    finally:
        os.close(descriptor)
    return parse(data)


def parse(data: bytes) -> tuple[list[str], str]:
    """Return what `system_folders` returns, from the bytes of a loader."""
    end = 0
    while (at := data.find(b"/lib", end)) >= 0:
        start = data.rfind(b"\0", 0, at) + 1
        found, end = _run(data, start)
        if found:
            return found, _lib(data, found[0])
        end = max(end, at + 1)
    return [], ""


def _run(data: bytes, start: int) -> tuple[list[str], int]:
    """Return the strings from `start` on that are folders, and where the first other one is."""
    found: list[str] = []
    at = start
    while len(found) < _MAX_FOLDERS:
        end = data.find(b"\0", at, at + 4096)
        text = data[at:end] if end > at else b""
        is_folder = text[:1] == b"/" == text[-1:] and len(text) > 1
        if not is_folder or not all(33 <= byte < 127 for byte in text):
            break
        found.append(os.fsdecode(text.rstrip(b"/")))
        at = end + 1
    return found, at


def _lib(data: bytes, folder: str) -> str:
    """Return $LIB: Debian's has two parts, that of others is the last one of the folder."""
    whole = folder.strip("/")
    if b"\0" + os.fsencode(whole) + b"\0" in data:
        return whole
    return os.path.basename(folder)
