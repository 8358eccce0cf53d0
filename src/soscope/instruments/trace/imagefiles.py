# SPDX-License-Identifier: Apache-2.0
"""The files of a process's images, found by its mappings and kept open for a while."""

from __future__ import annotations

import os

from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError
from soscope.proc import maps

_MOST = 1000
_MOST_KEPT = 250  # descriptors that stay open
_MOST_LINES = 1 << 13  # lines of mappings of processes

# By line of mappings: path and inode of the mapped file, None if there is none that can be opened.
KnownLines = dict[bytes, tuple[str, int] | None]


class ImageFiles:
    """Files of images, open until they are closed. `all` are (path, image)."""

    def __init__(self, paths: dict[str, int] | list[str]) -> None:
        """Open the files `paths`, in order, each with its inode if that is known."""
        self.all: list[tuple[str, ElfImage]] = []
        self._open: dict[str, tuple[int, int, ElfImage | None]] = {}
        self._strings: dict[str, bytes] = {}
        self.become(paths if isinstance(paths, dict) else dict.fromkeys(paths, 0))

    def become(self, paths: dict[str, int]) -> None:
        """Replace the list of files. Files that are open already stay open."""
        for path in list(self._open):
            if path not in paths or self._open[path][0] != paths[path]:
                self._forget(path)
        self.all = []
        for path, inode in list(paths.items())[:_MOST]:
            if path not in self._open:
                try:
                    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                except OSError:
                    continue  # frames of this image are named without the file
                try:
                    if inode not in (0, os.fstat(descriptor).st_ino):
                        os.close(descriptor)  # the path has another file by now
                        continue
                    image: ElfImage | None = ElfImage.from_descriptor(descriptor, path)
                except (FormatError, OSError):
                    image = None
                self._open[path] = inode, descriptor, image
            image = self._open[path][2]
            if image is not None:
                self.all.append((path, image))

    def rest(self) -> None:
        """Close most files if there are many, as they are not needed for a while."""
        for path in list(self._open)[_MOST_KEPT:]:
            self._forget(path)

    def may_define(self, path: str, image: ElfImage, name: str) -> bool:
        """Return whether an image has a symbol `name`, defined or not.

        The second look into the same image is fast. Raises FormatError.
        """
        if path not in self._strings:
            self._strings[path] = image.dynamic_strings()
        return name.encode(errors="surrogateescape") + b"\0" in self._strings[path]

    def _forget(self, path: str) -> None:
        os.close(self._open.pop(path)[1])
        self._strings.pop(path, None)

    def close(self) -> None:
        """Close all files."""
        self.become({})


def mapped(pid: int) -> dict[str, int]:
    """Return the paths of a process's images with their inodes, the program first.

    Raises OSError.
    """
    return _paths(pid, maps.text_of(pid).split(b"\n"), {})


def mapped_at(pid: int, addr: int, known: KnownLines) -> tuple[str, dict[str, int]]:
    """Return the path of the image whose first mapping is at `addr`, and all as `mapped`.

    The path is "" if that file cannot be found. `known` are lines that were parsed before, so
    that they are not parsed again for each image that a process loads. Raises OSError.
    """
    lines = maps.text_of(pid).split(b"\n")
    if len(known) > _MOST_LINES:
        known.clear()
    paths = _paths(pid, lines, known)
    start = b"%08x-" % addr
    here = next((maps.parse_line(line).path for line in lines if line.startswith(start)), "")
    return here if here in paths else "", paths


def _paths(pid: int, lines: list[bytes], known: KnownLines) -> dict[str, int]:
    main = os.readlink(f"/proc/{pid}/exe")
    paths = {main: 0}
    for line in lines:
        if b"xp " not in line and b"xs " not in line:
            continue
        if line not in known:
            known[line] = _file_of(line)
        file = known[line]
        if file is not None and not paths.get(file[0]):
            paths[file[0]] = file[1]
    return paths


def _file_of(line: bytes) -> tuple[str, int] | None:
    """Return path and inode of the mapped file, None if there is none, or if it differs here."""
    mapping = maps.parse_line(line)
    if "x" not in mapping.flags or not mapping.path.startswith("/"):
        return None
    # The path must lead to the same file here, as the process may have another root.
    try:
        is_same = os.stat(mapping.path).st_ino == mapping.inode
    except OSError:
        return None  # the file is gone or may not be read
    return (mapping.path, mapping.inode) if is_same else None
