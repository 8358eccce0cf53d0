# SPDX-License-Identifier: Apache-2.0
"""One image of an inspected process, and the file that it was mapped from."""

from __future__ import annotations

import errno
import os
import stat

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.reader import (
    Dynamic,
    Encoding,
    Segment,
    encoding,
    read_header,
    read_segments,
    unpack_segments,
)
from soscope.binfmt.source import READING, ByteSource, FileSource
from soscope.errors import FormatError
from soscope.live.images.space import Space, open_same
from soscope.model.record import once
from soscope.proc.maps import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.elf.symboltable import SymbolTable
    from soscope.live.names.locate import Locator
    from soscope.live.names.staticnames import ImageNames
    from soscope.model.arch import Arch


# One image of a process: a link map entry, and everything that can be read from it.
#
# All data except its address is read on first use, because a look-up needs only a few of five
# hundred images.

_DELETED = " (deleted)"
_HEAD = 1024  # bytes; enough for nearly every ELF header with program headers


class LoadedImage:
    """One image; `index` counts in link-map order, `namespace` is 0 unless dlmopen loaded it.

    `load_bias` may be negative. `dynamic` is the run-time address of its dynamic section, 0 if it
    has none. `link_map` is the address of its entry, 0 for an image that is in no link map.
    """

    def __init__(
        self,
        space: Space,
        index: int,
        namespace: int,
        load_bias: int,
        dynamic: int,
        *,
        link_map: int = 0,
        name_addr: int = 0,
        segments: list[Segment] | None = None,
        is_main: bool = False,
        is_vdso: bool = False,
    ) -> None:
        self.space = space
        self.index = index
        self.namespace = namespace
        # a prelinked image may lie below its link-time address
        self.load_bias = load_bias - (1 << space.bits if load_bias > dynamic > 0 else 0)
        self.dynamic = dynamic
        self.link_map = link_map
        self.is_main = is_main
        self.is_vdso = is_vdso
        self._name_addr = name_addr
        if segments is not None:
            self.segments = segments

    def __repr__(self) -> str:
        """Show its name and its load bias."""
        return f"<LoadedImage {self.name} at {self.load_bias:#x}>"

    # ---- names ----

    @once
    def loader_name(self) -> str:
        """`l_name`, the path that the loader opened; "" for the program itself."""
        text = self.space.read(self._name_addr, 256) if self._name_addr else b""
        if text and b"\0" not in text:
            text = self.space.read(self._name_addr, 4096)
        return os.fsdecode(text.split(b"\0", 1)[0])

    @once
    def path(self) -> str:
        """The kernel's path, else the loader's; without "(deleted)"."""
        mapping = self.mapping
        path = "" if mapping is None else mapping.path.replace("\\012", "\n")
        if mapping is not None and path.endswith(_DELETED):
            path = self._without_mark(path, mapping)
        if not path or path.startswith("["):
            path = self.loader_name or path
        return path

    def _without_mark(self, path: str, mapping: Mapping) -> str:
        """Remove the kernel's " (deleted)", unless the file name itself ends so."""
        try:
            if os.stat(f"{self.space.roots[0]}{path}").st_ino == mapping.inode:
                return path
        except OSError:
            pass  # no file has that name: the kernel added the suffix
        return path.removesuffix(_DELETED)

    @once
    def name(self) -> str:
        """The last part of its path, by which users know it; the loader's path comes first."""
        loader = self.loader_name
        if not loader or loader.startswith("/proc/"):
            loader = self.path
        return os.path.basename(loader) or loader

    @property
    def soname(self) -> str:
        """The DT_SONAME, "" if there is none or it cannot be read."""
        try:
            return self.reader.soname or ""
        except FormatError:
            return ""

    def is_called(self, text: str) -> bool:
        """Return whether `text` is its soname, file name or path."""
        names = {self.loader_name, self.name, self.path, os.path.basename(self.path), self.soname}
        return text in names - {""}

    # ---- contents ----

    @property
    def encoding(self) -> Encoding:
        """The class and byte order of its numbers."""
        return encoding(self.space.bits, self.space.order)

    @property
    def mapping(self) -> Mapping | None:
        """The mapping that contains its dynamic section, else its first segment."""
        addr = self.dynamic
        if not addr:
            loads = [segment for segment in self.segments if segment.type == c.PT_LOAD]
            addr = loads[0].vaddr + self.load_bias if loads else 0
        return self.space.mapping_at(addr)

    @property
    def machine(self) -> int:
        """The e_machine of its ELF header, 0 if that is neither mapped nor in its file."""
        head = self.space.read(self.ranges[0][0], 20) if self.ranges else b""
        if head[:4] == b"\x7fELF":
            return int.from_bytes(head[18:20], self.space.endian)
        header = None if self.file is None else self.file.elf.header
        return 0 if header is None else header.machine

    @once
    def arch(self) -> Arch | None:
        """The row of model/arch.py for its machine; if that is not known, for the process's."""
        from soscope.model.arch import arch_of_process

        return arch_of_process(self.machine, self.space.bits, self.space.order)

    @once
    def segments(self) -> list[Segment]:
        """The program headers; empty if they are neither mapped nor in its file."""
        segments = self._segments_at(self.load_bias)  # the image nearly always starts at l_addr
        if segments is not None:
            return segments
        mapping = self.space.mapping_at(self.dynamic)
        if mapping is not None and mapping.inode:
            same = self.space.mappings_of(mapping.inode)
            for candidate in reversed([piece for piece in same if piece.start <= mapping.start]):
                segments = self._segments_at(candidate.start)
                if segments is not None:
                    return segments
        # its file is found by its dynamic section, else by these segments
        file = self.file if self.dynamic else None
        return [] if file is None else file.elf.segments

    @once
    def elf(self) -> ElfImage:
        """The image as it is in memory."""
        dynamic = self.reader.dynamic if self.dynamic else None
        return self._mapped(self.segments, dynamic)

    @once
    def build_id(self) -> bytes:
        """The GNU build-id in its memory, empty if there is none.

        Raises FormatError if its notes are damaged.
        """
        return self._mapped(self.segments).build_id  # `elf` reads the whole dynamic section

    @once
    def reader(self) -> ElfImage:
        """The tables of its dynamic section; this does not read the program headers.

        Raises FormatError if the dynamic section cannot be read.
        """
        memory = self.space.memory
        dynamic = Dynamic.read(memory, self.encoding, self.dynamic) if self.dynamic else Dynamic([])
        return self._mapped([], dynamic)

    def _mapped(self, segments: list[Segment], dynamic: Dynamic | None = None) -> ElfImage:
        """Return the image in memory, with these program headers and this dynamic section."""
        return ElfImage(
            self.space.memory,
            encoding=self.encoding,
            header=None,
            segments=segments,
            load_bias=self.load_bias,
            is_mapped=True,
            dynamic=dynamic,
        )

    @once
    def symbols(self) -> SymbolTable:
        """The dynamic symbols.

        Raises FormatError if the dynamic section cannot be read.
        """
        return self.reader.symbols

    @once
    def file(self) -> ImageFile | None:
        """The file that was mapped, None if it cannot be opened any more."""
        return open_file(self)

    @once
    def names(self) -> ImageNames:
        """The static symbols of its own file and of debug files."""
        from soscope.live.names.staticnames import ImageNames

        file = self.file
        try:
            build_id = self.build_id
        except FormatError:
            build_id = b"" if file is None else file.build_id
        return ImageNames(
            None if file is None else file.elf,
            build_id=build_id,
            path=self.path,
            roots=self.space.roots,
        )

    @once
    def locator(self) -> Locator:
        """Symbols by link-time address."""
        from soscope.live.names.locate import DYNAMIC, MEMORY, VDSO, Locator

        rule = VDSO if self.is_vdso else DYNAMIC if self.link_map or self.is_main else MEMORY
        # prefer the file, because a tracer changes what is in memory
        elf = self.elf if self.file is None else self.file.elf
        return Locator(elf, self.names, rule=rule)

    @once
    def ranges(self) -> list[tuple[int, int]]:
        """The run-time addresses (start, end) of its PT_LOADs, sorted."""
        bias = self.load_bias
        return sorted(
            (segment.vaddr + bias, segment.vaddr + segment.memsz + bias)
            for segment in self.segments
            if segment.type == c.PT_LOAD
        )

    @property
    def mappings(self) -> list[Mapping]:
        """The mappings that contain a part of its PT_LOADs."""
        from bisect import bisect_left, bisect_right

        ranges = self.ranges
        every = self.space.mappings
        if not ranges:
            return []
        low = bisect_right(every, ranges[0][0], key=lambda mapping: mapping.end)
        high = bisect_left(every, ranges[-1][1], low, key=lambda mapping: mapping.start)
        return [
            mapping
            for mapping in every[low:high]
            if any(mapping.start < end and start < mapping.end for start, end in ranges)
        ]

    def executes(self, addr: int) -> bool:
        """Return whether `addr` lies in one of its executable segments."""
        return any(
            segment.type == c.PT_LOAD
            and segment.flags & c.PF_X
            and 0 <= addr - self.load_bias - segment.vaddr < segment.memsz
            for segment in self.segments
        )

    def contains(self, addr: int) -> bool:
        """Return whether `addr` lies in one of its PT_LOADs."""
        return any(start <= addr < end for start, end in self.ranges)

    @property
    def has_no_segments_yet(self) -> bool:
        """Return whether its program headers have not been read yet."""
        return "segments" not in vars(self)

    def take_segments(self, segments: list[Segment]) -> None:
        """Set the program headers, which the caller has read already."""
        self.segments = segments
        vars(self).pop("ranges", None)

    def _segments_at(self, addr: int) -> list[Segment] | None:
        """Return the program headers of the ELF header at `addr`, if it is this image's."""
        head = self.space.read(addr, _HEAD)
        if head[:4] != b"\x7fELF":
            return None
        coding = self.encoding
        try:
            header = read_header(self.space.memory, addr)
            size = header.phnum * coding.segment.size
            if header.phentsize == coding.segment.size and header.phoff + size <= len(head):
                segments = unpack_segments(coding, head[header.phoff : header.phoff + size])
            else:
                segments = read_segments(self.space.memory, header, addr)
        except FormatError:
            return None
        for segment in segments:
            if segment.type == c.PT_DYNAMIC and segment.vaddr + self.load_bias == self.dynamic:
                return segments
        return None


# Open the file of an image: the mapped file, not the file that has its name now.
#
# The mapping that contains the dynamic section leads to it. `/proc/PID/map_files` opens exactly
# that file, even if it was renamed or deleted. If that is not allowed, a path is used whose inode
# is the mapping's. Finally the build-id in memory must match.


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
        return os.open(path, READING)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return os.open(path, READING)


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
