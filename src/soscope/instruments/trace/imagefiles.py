# SPDX-License-Identifier: Apache-2.0
"""The files of a process's images: which they are, and open for a look at them."""

from __future__ import annotations

import os

from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError
from soscope.proc import maps

_MOST = 1000
_MOST_KEPT = 250  # descriptors
_MOST_LINES = 1 << 13  # of the mappings of processes

# Lines of mappings by what they are of: the path of a file that we can find, and its inode.
KnownLines = dict[bytes, tuple[str, int] | None]


class ImageFiles:
    """Files of images, open until they are closed: `all` are paths and what is read of them."""

    def __init__(self, paths: dict[str, int] | list[str]) -> None:
        """Open the files `paths`, in order, where each has its inode, if that is known."""
        self.all: list[tuple[str, ElfImage]] = []
        self._open: dict[str, tuple[int, int, ElfImage | None]] = {}
        self._strings: dict[str, bytes] = {}
        self.become(paths if isinstance(paths, dict) else dict.fromkeys(paths, 0))

    def become(self, paths: dict[str, int]) -> None:
        """Have these be the files: those that are open already stay so."""
        for path in list(self._open):
            if path not in paths or self._open[path][0] != paths[path]:
                self._forget(path)
        self.all = []
        for path, inode in list(paths.items())[:_MOST]:
            if path not in self._open:
                try:
                    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                except OSError:
                    continue  # its frames are named without the file
                try:
                    if inode not in (0, os.fstat(descriptor).st_ino):
                        os.close(descriptor)  # another file by now
                        continue
                    image: ElfImage | None = ElfImage.from_descriptor(descriptor, path)
                except (FormatError, OSError):
                    image = None
                self._open[path] = inode, descriptor, image
            image = self._open[path][2]
            if image is not None:
                self.all.append((path, image))

    def rest(self) -> None:
        """Close most of them, where they are many: they are not wanted for a while."""
        for path in list(self._open)[_MOST_KEPT:]:
            self._forget(path)

    def may_define(self, path: str, image: ElfImage, name: str) -> bool:
        """Return whether an image has a symbol `name`, defined or not; fast at the second time.

        Raises FormatError.
        """
        if path not in self._strings:
            self._strings[path] = image.dynamic_strings()
        return name.encode(errors="surrogateescape") + b"\0" in self._strings[path]

    def _forget(self, path: str) -> None:
        os.close(self._open.pop(path)[1])
        self._strings.pop(path, None)

    def close(self) -> None:
        """Close all of them."""
        self.become({})


def mapped(pid: int) -> dict[str, int]:
    """Return the paths of the images of a process and their inodes, the program's first.

    Raises OSError.
    """
    return _paths(pid, maps.text_of(pid).split(b"\n"), {})


def mapped_at(pid: int, addr: int, known: KnownLines) -> tuple[str, dict[str, int]]:
    """Return the path of the image whose first mapping is at `addr`, and all as `mapped`.

    The first is "" where we cannot find that file. `known` are lines that have been looked at, so
    that a process that loads one image after the other is not looked at anew. Raises OSError.
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
    """Return the path and inode of what is mapped, None where that is no file or not ours."""
    mapping = maps.parse_line(line)
    if "x" not in mapping.flags or not mapping.path.startswith("/"):
        return None
    # the same file for us: the process may have another root
    try:
        is_same = os.stat(mapping.path).st_ino == mapping.inode
    except OSError:
        return None  # it is gone, or another's: there is nothing to read
    return (mapping.path, mapping.inode) if is_same else None
