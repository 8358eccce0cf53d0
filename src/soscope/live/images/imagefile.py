# SPDX-License-Identifier: Apache-2.0
"""Open the file of an image: the mapped file, not the file that has its name now.

The mapping that contains the dynamic section leads to it. `/proc/PID/map_files` opens exactly
that file, even if it was renamed or deleted. If that is not allowed, a path is used whose inode
is the mapping's. Finally the build-id in memory must match.
"""

from __future__ import annotations

import errno
import os
import stat

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import ByteSource, FileSource
from soscope.errors import FormatError
from soscope.live.images.loadedimage import LoadedImage
from soscope.live.images.patchwork import open_same
from soscope.proc.maps import Mapping

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class SliceSource(ByteSource):
    """A file inside another file (an uncompressed member of an archive)."""

    __slots__ = ("_base", "_source")

    def __init__(self, source: ByteSource, base: int) -> None:
        super().__init__(source.name)
        self._source = source
        self._base = base

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset` of the inner file."""
        return self._source.read(self._base + offset, size) if offset >= 0 else b""


class ImageFile:
    """An open file from which an image was mapped.

    `base` is the offset of its ELF header, which is 0 except for a member of an archive. `path`
    is the kernel's path, as the process sees it. `source` reads the file from `base` on.
    """

    __slots__ = ("base", "build_id", "descriptor", "elf", "inode", "path", "source")

    def __init__(self, descriptor: int, path: str, inode: int, base: int, elf: ElfImage) -> None:
        """Take ownership of the descriptor; `elf` reads from `base` on.

        Raises FormatError if the file's notes are damaged.
        """
        self.descriptor = descriptor
        self.path = path
        self.inode = inode
        self.base = base
        self.source = elf.source
        self.elf = elf
        self.build_id = elf.build_id

    def __del__(self) -> None:
        os.close(self.descriptor)


def open_file(image: LoadedImage) -> ImageFile | None:
    """Open the file from which `image` was mapped, None if it cannot be opened."""
    if image.is_vdso:
        return None
    mapping = image.mapping
    if mapping is None or not mapping.inode:
        return None
    if not image.space.is_here:
        for descriptor in image.space.files_at(mapping.path):
            file = _taken(image, mapping, descriptor)
            if file is not None:
                return file
        return None
    opened = _open(image, mapping)
    return None if opened is None else _taken(image, mapping, opened)


def _taken(image: LoadedImage, mapping: Mapping, descriptor: int) -> ImageFile | None:
    """Return an open file if `image` was mapped from it; otherwise close it and return None."""
    member = _elf_in(image, mapping, descriptor)
    if member is None:
        os.close(descriptor)
        return None
    try:
        file = ImageFile(descriptor, image.path, mapping.inode, *member)
    except FormatError:
        return None
    return file if _agrees(image, file) else None


def _with_room(path: str) -> int:
    """Open a file; raise the limit of descriptors first if a process with many images needs it."""
    try:
        return os.open(path, _FLAGS)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return os.open(path, _FLAGS)


def _open(image: LoadedImage, mapping: Mapping) -> int | None:
    tid = image.space.tid
    # The names in map_files, unlike the addresses in maps, have no leading zeros.
    path = f"/proc/{tid}/map_files/{mapping.start:x}-{mapping.end:x}"
    try:
        descriptor = _with_room(path)
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


def _elf_in(image: LoadedImage, mapping: Mapping, descriptor: int) -> tuple[int, ElfImage] | None:
    """Return the offset of the image's ELF header in the file, and the ELF image there.

    Return None if no ELF header in the file can be the image's.
    """
    whole = FileSource(descriptor, image.path)
    starts = [piece.offset for piece in image.space.mappings_of(mapping.inode) if piece.offset]
    for start in (0, *starts):
        source = SliceSource(whole, start) if start else whole
        try:
            elf = ElfImage.from_source(source)
        except FormatError:
            continue  # not an ELF image: try another member
        wanted = c.PT_DYNAMIC if image.dynamic else c.PT_LOAD
        for segment in elf.segments:
            addr = segment.vaddr + image.load_bias
            if segment.type == wanted and mapping.start <= addr < mapping.end:
                return start, elf
    return None


def _agrees(image: LoadedImage, file: ImageFile) -> bool:
    """Return whether the file matches the memory, by build-id and program headers."""
    if image.has_no_segments_yet:  # the image's program headers may have to be read from this file
        return True
    ours = [
        (segment.type, segment.offset, segment.vaddr, segment.filesz) for segment in image.segments
    ]
    theirs = [
        (segment.type, segment.offset, segment.vaddr, segment.filesz)
        for segment in file.elf.segments
    ]
    if ours != theirs:
        return False
    try:
        mapped = image.build_id
    except FormatError:
        return True
    return not mapped or not file.build_id or mapped == file.build_id
