# SPDX-License-Identifier: Apache-2.0
"""The file behind an image: the one that is mapped, not the one that has its name now.

The mapping that holds the dynamic section leads to it: `/proc/PID/map_files` opens the very
file, whatever became of its name; where that is not allowed, a path is taken if the inode is
that of the mapping. The build-id in memory has the last word.
"""

from __future__ import annotations

import os
import stat

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import ByteSource, FileSource
from soscope.errors import FormatError
from soscope.process.loadedimage import LoadedImage
from soscope.process.maps import Mapping
from soscope.process.patchwork import open_same

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class SliceSource(ByteSource):
    """A file inside of another (a member of an archive that is stored as it is)."""

    __slots__ = ("_base", "_source")

    def __init__(self, source: ByteSource, base: int) -> None:
        super().__init__(source.name)
        self._source = source
        self._base = base

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset` of the inner file."""
        return self._source.read(self._base + offset, size) if offset >= 0 else b""


class ImageFile:
    """An open file that an image was mapped from.

    `base` is where its ELF header lies: 0, but for a member of an archive. `path` is where
    the kernel says it is, in the process's view; `source` reads it from `base` on.
    """

    __slots__ = ("base", "build_id", "descriptor", "elf", "inode", "path", "source")

    def __init__(self, descriptor: int, path: str, inode: int, base: int) -> None:
        """Take the descriptor over.

        Raises FormatError where it is no ELF file.
        """
        self.descriptor = descriptor
        self.path = path
        self.inode = inode
        self.base = base
        source: ByteSource = FileSource(descriptor, path)
        if base:
            source = SliceSource(source, base)
        self.source = source
        self.elf = ElfImage.from_source(source)
        self.build_id = self.elf.build_id

    def __del__(self) -> None:
        os.close(self.descriptor)


def open_file(image: LoadedImage) -> ImageFile | None:
    """Open the file that `image` was mapped from, None where there is none to be had."""
    if image.is_vdso:
        return None
    mapping = image.mapping
    if mapping is None or not mapping.inode:
        return None
    descriptor = _open(image, mapping)
    if descriptor is None:
        return None
    try:
        file = ImageFile(descriptor, image.path, mapping.inode, _base(image, mapping, descriptor))
    except FormatError:
        return None
    return file if _agrees(image, file) else None


def _open(image: LoadedImage, mapping: Mapping) -> int | None:
    tid = image.space.tid
    # In map_files, unlike in maps, addresses have no leading zeros.
    path = f"/proc/{tid}/map_files/{mapping.start:x}-{mapping.end:x}"
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:  # needs CAP_CHECKPOINT_RESTORE, or the mapping has changed
        name = mapping.path.replace("\\012", "\n")
        return open_same(
            (f"/proc/{tid}/exe", f"/proc/{tid}/root{name}", name),
            mapping.inode,
        )
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor


def _base(image: LoadedImage, mapping: Mapping, descriptor: int) -> int:
    """Return where in the file the image's ELF header lies."""
    source = FileSource(descriptor, image.path)
    for start in (0, *_starts(image, mapping)):
        if source.read(start, 4) != b"\x7fELF":
            continue
        try:
            elf = ElfImage.from_source(SliceSource(source, start) if start else source)
        except FormatError:
            continue
        for segment in elf.segments:
            wanted = c.PT_DYNAMIC if image.dynamic else c.PT_LOAD
            addr = segment.vaddr + image.load_bias
            if segment.type == wanted and mapping.start <= addr < mapping.end:
                return start
    return 0


def _starts(image: LoadedImage, mapping: Mapping) -> list[int]:
    """Return the offsets at which the file is mapped near the image, lowest address first."""
    return [one.offset for one in image.space.mappings_of(mapping.inode) if one.offset]


def _agrees(image: LoadedImage, file: ImageFile) -> bool:
    """Say whether the file has the build-id that is in memory, as far as both have one."""
    if image._segments is None:  # the file itself may be where they are to come from
        try:
            addr = next(s.vaddr for s in file.elf.segments if s.type == c.PT_DYNAMIC)
        except StopIteration:
            return True
        return addr + image.load_bias == image.dynamic
    try:
        mapped = image.elf.build_id
    except FormatError:
        return True
    return not mapped or not file.build_id or mapped == file.build_id
